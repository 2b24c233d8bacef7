"""The broker on a disk that fills up, and without descriptors."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred

from broker.sessions.store.interface import State
from gitmoat.audit.chain import verify_journal
from gitmoat.audit.events import PeerRefused
from gitmoat.audit.journal import JournalUnavailable
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import PACK_HEAD, POLICY, Sidecar, World, commands
from tests.fakes.fake_upstream import FakeUpstream, ok
from tests.fakes.reactor_tests import on_reactor

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)
REPORT = format_data(b"unpack ok\n") + format_data(b"ok refs/heads/agent/a\n") + FLUSH


PUSHABLE = ok(Service.RECEIVE_PACK, "advertisement", format_data(b"version 1\n") + FLUSH)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Scene]:
    """All that the broker writes, on a file system of a few megabytes and files."""
    from twisted.internet import reactor

    upstream = FakeUpstream(reactor)
    world = World(reactor, tmp_path, upstream.port)
    folder = world.paths.broker_state
    folder.mkdir(parents=True)
    options = "size=24m,nr_inodes=256,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    os.chown(folder, 1999999999, 1999999999)
    world.start()
    yield Scene(world, upstream)

    async def end() -> None:
        await world.stop()
        await upstream.close()

    pytest_twisted.blockon(ensureDeferred(end()))
    subprocess.run(["umount", folder], check=True)


def fill(scene: Scene) -> Path:
    path = scene.world.paths.broker_state / "ballast"
    with path.open("ab", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            pass
    return path


def use_up_files(scene: Scene) -> list[Path]:
    made: list[Path] = []
    try:
        while True:
            made.append(scene.world.paths.broker_state / f"file-{len(made)}")
            made[-1].touch(exist_ok=False)
    except OSError:
        return made[:-1]


def use_up_what_was_taken_ahead(scene: Scene) -> None:
    """With records for which nothing is kept."""
    with pytest.raises(JournalUnavailable, match="disk is full"):
        for _ in range(5000):
            scene.world.opened.journal.record(PeerRefused(code="C102"), durable=False)


def status(scene: Scene) -> dict[str, Any]:
    found = scene.world.broker.admin().operations["status"]({}, 0)
    assert isinstance(found, dict)
    return found


async def git_passes(scene: Scene, sidecar: Sidecar) -> None:
    """A push with its discovery, and a fetch."""
    scene.upstream.answers(PUSHABLE)
    assert (await sidecar.refs(service="git-receive-pack")).status == 200
    scene.upstream.answers(ok(Service.RECEIVE_PACK, "result", REPORT))
    pushed = await sidecar.push(commands("refs/heads/agent/a") + PACK_HEAD)
    assert pushed.status == 200 and b"ok refs/heads/agent/a" in pushed.data
    scene.upstream.answers(REFS)
    assert (await sidecar.refs()).status == 200


async def revoke(scene: Scene, session: str) -> int:
    host = await scene.world.host()
    fields = json.dumps({"session": session}).encode()
    return (await host.ask("POST", "/host/revoke", (), fields)).status


@pytest.mark.parametrize("what", ["space", "files"])
@on_reactor
async def test_on_a_full_disk_git_passes_sessions_begin_and_end_and_status_tells(
    small_disk: Scene, what: str
) -> None:
    world = small_disk.world
    sidecar, other = await world.session(), await world.session()
    await git_passes(small_disk, sidecar)
    assert status(small_disk)["healthy"] is True
    ballast = [fill(small_disk)] if what == "space" else use_up_files(small_disk)
    for _ in range(5):
        await git_passes(small_disk, sidecar)
        fill(small_disk) if what == "space" else None
    await git_passes(small_disk, await world.session())
    assert await revoke(small_disk, "session-2") == 200
    assert (await other.refs()).status == 401
    world.broker.tick()
    told = status(small_disk)
    assert told["healthy"] is False and "B103" in told["problems"][0]
    assert str(world.paths.broker_audit.parent) in told["problems"][0]
    for each in ballast:
        each.unlink()
    await git_passes(small_disk, sidecar)
    assert status(small_disk)["healthy"] is True
    verify_journal(world.paths.broker_audit, world.opened.journal.head())


@on_reactor
async def test_on_a_full_disk_one_sandbox_cannot_use_up_what_is_kept_for_the_others(
    small_disk: Scene,
) -> None:
    world, upstream = small_disk.world, small_disk.upstream
    policy = re.sub("git_requests_per_minute = .*", "git_requests_per_minute = 9999", POLICY)
    hostile, other = await world.session(policy), await world.session()
    upstream.answers(REFS)
    fill(small_disk)
    use_up_what_was_taken_ahead(small_disk)
    answers = [(await hostile.refs()).status for _ in range(120)]
    served = answers.count(200)
    assert 20 < served < 100 and set(answers[served:]) == {503}
    await git_passes(small_disk, other)
    assert await revoke(small_disk, "session-1") == 200


@on_reactor
async def test_a_broker_that_was_stopped_in_order_starts_on_a_full_disk(small_disk: Scene) -> None:
    world = small_disk.world
    await world.session()
    await world.session()
    await world.stop()
    fill(small_disk)
    world.start()
    assert [one.id for one in world.broker.context.sessions.living()] == ["session-1", "session-2"]
    assert await revoke(small_disk, "session-2") == 200
    world.broker.tick()
    states = {one.id: one.state for one in world.opened.store.load().sessions}
    assert states["session-2"] is State.ENDED


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
