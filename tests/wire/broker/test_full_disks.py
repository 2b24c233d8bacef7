"""The broker on a disk that fills up, and without descriptors."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred

from audit.verify import verify_journal
from gitwire.pktline import FLUSH, format_data
from gitwire.smarthttp import Service
from tests.fakes.broker_world import PACK_HEAD, World, commands
from tests.fakes.fake_upstream import FakeUpstream, ok
from tests.fakes.reactor_tests import on_reactor
from tests.wire.broker.conftest import Scene

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)
REPORT = format_data(b"unpack ok\n") + format_data(b"ok refs/heads/agent/a\n") + FLUSH


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Scene]:
    """The journal alone on a file system of two megabytes."""
    from twisted.internet import reactor

    upstream = FakeUpstream(reactor)
    world = World(reactor, tmp_path, upstream.port)
    folder = world.paths.broker_audit.parent
    folder.mkdir(parents=True, mode=0o700)
    world.paths.broker_state.chmod(0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "none", folder], check=True)
    for each in (world.paths.broker_state, folder):
        os.chown(each, 1999999999, 1999999999)
    world.start()
    yield Scene(world, upstream)

    async def end() -> None:
        await world.stop()
        await upstream.close()

    pytest_twisted.blockon(ensureDeferred(end()))
    subprocess.run(["umount", folder], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            pass


@on_reactor
async def test_a_full_audit_disk_refuses_fetches_keeps_pushes_and_recovers_by_itself(
    small_disk: Scene,
) -> None:
    world, upstream = small_disk.world, small_disk.upstream
    sidecar = await world.session()
    upstream.answers(REFS)
    assert (await sidecar.refs()).status == 200
    ballast = world.paths.broker_audit.parent / "ballast"
    fill(ballast)
    asked = len(upstream.heads)
    refused = [await sidecar.refs() for _ in range(8)]
    assert {each.status for each in refused[-4:]} == {503}
    assert b"B103" in refused[-1].data
    assert len(upstream.heads) - asked <= 4  # what fitted into the last block
    upstream.answers(ok(Service.RECEIVE_PACK, "result", REPORT))
    pushed = await sidecar.push(commands("refs/heads/agent/a") + PACK_HEAD)
    assert pushed.status == 200 and b"ok refs/heads/agent/a" in pushed.data
    operations = world.broker.admin().operations
    status = operations["status"]({}, 0)
    assert isinstance(status, dict) and status["healthy"] is False
    ballast.unlink()
    upstream.answers(REFS)
    assert (await sidecar.refs()).status == 200
    status = operations["status"]({}, 0)
    assert isinstance(status, dict) and status["healthy"] is True
    verify_journal(world.paths.broker_audit, world.opened.journal.head())


CROWD = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(60)]
print("here", flush=True)
sys.stdin.read()
"""


@on_reactor
async def test_without_descriptors_the_broker_answers_who_is_there_and_works_again(
    scene: Scene,
) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with subprocess.Popen(
        [sys.executable, "-c", CROWD, str(scene.world.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as crowd:
        assert crowd.stdin is not None and crowd.stdout is not None
        assert crowd.stdout.readline() == b"here\n"
        most = max(map(int, os.listdir("/proc/self/fd"))) + 3
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        try:
            await scene.pause(0.5)
            # From a connection to the upstream that is kept, or a plain word that there is none.
            assert (await sidecar.refs()).status in (200, 502)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        crowd.stdin.close()
    assert (await (await scene.world.session()).refs()).status == 200
