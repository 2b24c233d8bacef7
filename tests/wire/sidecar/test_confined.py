"""The sidecar as it really runs: forked from a warm process, without files, imports or sockets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.net.http.incoming import Incoming
from gitmoat.wire.http.formatting import format_response
from hostd.process.proc import wakeups
from tests.fakes.confined_world import ConfinedWorld
from tests.fakes.sidecar_requests import advertise, info_refs, question, status
from tests.fakes.sidecar_world import GitBackend, Hostd, run_beside
from tests.waiting import eventually

pytestmark = pytest.mark.root

HELPER = 61002
# Few enough that the ports' own limits are not reached first.
FEW = 40


def opens(incoming: Incoming) -> None:
    if incoming.head.method == b"CONNECT":
        incoming.tunnel(format_response(200, ()))
    else:
        incoming.reply(200, ((b"Content-Type", b"text/plain"),), b"here\n")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One that other uids can enter, unlike pytest's own."""
    if os.getuid() != 0:
        pytest.fail("this test needs root")
    path = Path("/tmp") / f"gitmoat-{os.getpid()}-{time.monotonic_ns()}"
    path.mkdir(mode=0o755)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=True)


@pytest.fixture
def world(folder: Path) -> Iterator[ConfinedWorld]:
    made = ConfinedWorld(folder, helper_uid=HELPER)
    yield made
    made.stop()


def test_it_serves_git_tokens_and_reports_from_inside_its_confinement(
    world: ConfinedWorld, repositories: Path
) -> None:
    hostd = world.start()
    world.broker.handler = GitBackend(repositories)
    os.chmod(world.folder / "cred.sock", 0o666)
    url = f"http://127.0.0.1:{world.untrusted_port}/hub.example/acme/app.git"
    cloned = world.git("clone", "-q", url, "clone")
    assert cloned.returncode == 0, cloned.stderr + world.log.read_text()
    request = "protocol=http\nhost=127.0.0.1:418\npath=hub.example/acme/app.git\n"
    (world.folder / "request").write_text(request)
    line = "git credential-cache --socket $PWD/cred.sock get < request"
    token = run_beside(world.loop, ["sh", "-c", line], world.folder, user=HELPER).stdout
    assert token.startswith("username=gitmoat\npassword="), world.log.read_text()
    refused = run_beside(world.loop, ["sh", "-c", line], world.folder, user=61003).stdout
    assert refused == ""
    assert status(world.answer(world.untrusted_port, info_refs("hub.example/x/y"))) == 404
    assert status(world.answer(world.untrusted_port, b"nonsense\r\n\r\n")) == 400
    world.loop.turn_until(lambda: len(world.broker.reports) >= 4)
    events = {json.loads(raw)["event"] for raw in world.broker.reports}
    assert events == {"credential-granted", "peer-refused", "git-refused"}
    hostd.send("stop")
    world.loop.turn_until(lambda: world.process.poll() is not None)
    assert world.process.returncode == 0
    log = world.log.read_text()
    assert "Traceback" not in log, log
    assert token.splitlines()[1].removeprefix("password=") not in log


def test_its_process_has_nothing_to_give(world: ConfinedWorld) -> None:
    world.start()
    assert world.status("Uid").split() == ["61001"] * 4
    assert world.status("CapEff") == "0" * 16
    assert world.status("NoNewPrivs") == "1"
    assert world.status("Seccomp") == "2"
    hostd = Hostd(world)
    hostd.send("selftest")
    world.loop.turn_until(lambda: hostd.messages[-1:] and hostd.messages[-1][:1] == b"T")  # type: ignore[arg-type, return-value]
    assert hostd.messages[-1] == b"T" + bytes([1] * 9) + bytes(23)


def test_a_lost_broker_is_survived_and_told(world: ConfinedWorld) -> None:
    hostd = world.start()
    world.broker.handler = advertise
    hostd.reachable = False
    world.broker.kill()
    answer = world.answer(world.untrusted_port, info_refs("hub.example/acme/app"))
    assert status(answer) == 502
    assert b"B101" in answer
    hostd.reachable = True
    assert status(world.answer(world.untrusted_port, info_refs("hub.example/acme/app"))) == 200
    assert "Traceback" not in world.log.read_text()


def test_nothing_is_imported_once_it_runs(world: ConfinedWorld) -> None:
    """`stop` looks for it, here after one of each: refusals, DNS, a tunnel, plain HTTP, another
    policy, what cannot be read."""
    hostd = world.start()
    world.broker.handler = opens
    for port in (world.untrusted_port, world.helper_port, world.proxy_port):
        for raw in (
            info_refs("hub.example/acme/app"),
            b"GET /hub.example/acme/app/info/lfs/locks HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
            b"GET http://web.example/ HTTP/1.1\r\nHost: \xff\r\n\r\n",
            b"CONNECT other.example:443 HTTP/1.1\r\n\r\n",
        ):
            world.answer(port, raw)
    tunnel = world.request(world.proxy_port, b"CONNECT web.example:443 HTTP/1.1\r\n\r\n")
    world.loop.turn_until(lambda: tunnel.received.startswith(b"HTTP/1.1 200 "))
    tunnel.send(b"no hello")
    world.loop.turn_until(lambda: tunnel.over)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", world.dns_port))
        for name in ("web.example", "other.example"):
            sock.send(question(1, name))
            assert sock.recv(512)
        sock.send(b"no question, and longer than a head")
        assert sock.recv(512)
    file = os.memfd_create("policy")
    os.write(file, b"no policy")
    os.lseek(file, 0, os.SEEK_SET)
    hostd.send("policy", file)
    os.close(file)
    world.loop.turn_until(lambda: "policy refused" in world.log.read_text())
    hostd.send("stop")
    world.loop.turn_until(lambda: world.process.poll() is not None)
    assert world.process.returncode == 0


class FewFiles(ConfinedWorld):
    files = FEW


def test_without_descriptors_it_neither_spins_nor_stays_deaf(folder: Path) -> None:
    world = FewFiles(folder, helper_uid=HELPER)
    world.start()
    world.broker.handler = advertise
    clients = [socket.create_connection(("127.0.0.1", world.untrusted_port)) for _ in range(60)]
    clients += [socket.create_connection(("127.0.0.1", world.helper_port)) for _ in range(20)]
    world.loop.turn_until(lambda: "EMFILE" in world.log.read_text())
    # One that spins is never seen asleep: it only waits for its turn.
    for _ in range(10):
        eventually(lambda: wakeups(world.pid) is not None, "it sleeps")
    for client in clients:
        client.close()
    assert status(world.answer(world.untrusted_port, info_refs("hub.example/acme/app"))) == 200
    assert "Traceback" not in world.log.read_text()
    world.stop()
