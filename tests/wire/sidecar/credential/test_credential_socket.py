from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from credential_helper.gitcredential import Request, format_request
from gitmoat.identity.peer import AttestedPeer, NotAttested
from gitmoat.listeners import BUDGETS
from gitmoat.messages.report import Event, Report
from sidecar.credential.credential_socket import Issuer, credential_port
from sidecar.credential.tokens import Tokens
from tests.fakes.sidecar_requests import APP, info_refs, status
from tests.fakes.sidecar_scope import SCOPE, basic
from tests.fakes.sidecar_world import Hostd, Loop, World, read_to_end, run_beside
from tests.fakes.whole_sidecar import stop


def connect(world: World) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(world.folder / "cred.sock"))
    sock.setblocking(False)
    return sock


def reports(world: World) -> list[dict[str, object]]:
    world.loop.pass_time(3)
    return [json.loads(raw) for raw in world.broker.reports]


def test_an_allowed_repository_gets_a_token_and_the_grant_is_reported(world: World) -> None:
    world.start()
    assert len(world.token(APP)) >= 22
    assert reports(world) == [
        {"event": "credential-granted", "uid": os.getuid(), "repo": "hub:acme/app"}
    ]


def test_no_broker_is_needed_for_a_token(world: World) -> None:
    hostd = world.start()
    hostd.reachable = False
    world.broker.kill()
    assert world.token(APP)


def test_another_repository_is_told_to_quit_and_reported(world: World) -> None:
    world.start()
    assert world.credential("hub.example/acme/other.git") == b"quit=1\n"
    assert reports(world) == [{"event": "credential-refused", "uid": os.getuid(), "code": "H105"}]


def told(action: str, path: str = APP) -> bytes:
    return (
        f"action={action}\nprotocol=http\nhost=127.0.0.1:418\npath={path}\n"
        "username=gitmoat\npassword=mine\n"
    ).encode()


def test_store_changes_nothing(world: World) -> None:
    world.start()
    assert world.ask(told("store")) == b""
    assert reports(world) == []


def test_erase_ends_every_token_of_its_repository(world: World) -> None:
    world.start()
    first, second = world.token(APP), world.token(APP)
    assert world.ask(told("erase", "hub.example/acme/other.git")) == b"quit=1\n"
    assert refused(world, first) is False
    assert world.ask(told("erase")) == b""
    assert (refused(world, first), refused(world, second)) == (True, True)
    assert refused(world, world.token(APP)) is False


def refused(world: World, token: str) -> bool:
    return status(world.answer(world.helper_port, info_refs(APP, basic(token)))) == 401


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"action=get\nprotocol=http\nhost=127.0.0.1:418\n",
        b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=" + APP.encode(),
        b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=" + APP.encode() + b"\r\n",
        b"action=get\nprotocol=http\nhost=127.0.0.1:418\nhost=x\npath=" + APP.encode() + b"\n",
        b"action=get\nprotocol=https\nhost=127.0.0.1:418\npath=" + APP.encode() + b"\n",
        b"action=list\nprotocol=http\nhost=127.0.0.1:418\npath=" + APP.encode() + b"\n",
        b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=\x00\n",
        b"x=" + b"y" * 20000 + b"\n",
    ],
)
def test_a_malformed_request_is_told_to_quit_and_reported(world: World, raw: bytes) -> None:
    world.start()
    assert world.ask(raw) == b"quit=1\n"
    assert reports(world) == [{"event": "credential-refused", "uid": os.getuid(), "code": "H103"}]


def test_every_chunking_of_a_request_is_the_same_request(world: World) -> None:
    world.start()
    with connect(world) as sock:
        for byte in f"action=get\nprotocol=http\nhost=127.0.0.1:418\npath={APP}\n".encode():
            sock.sendall(bytes([byte]))
            world.loop._turn()
        sock.shutdown(socket.SHUT_WR)
        assert read_to_end(world.loop, sock).startswith(b"username=gitmoat\npassword=")


def test_a_slow_request_is_closed_after_five_seconds(world: World) -> None:
    world.start()
    with connect(world) as sock:
        sock.sendall(b"action=get\n")
        world.loop.pass_time(4.5)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        world.loop.pass_time(1)
        assert sock.recv(1) == b""


def test_idle_connections_are_bounded_and_the_next_one_is_served_in_turn(world: World) -> None:
    world.start()
    idle = [connect(world) for _ in range(BUDGETS["credential"].connections)]
    world.loop.settle()
    with connect(world) as sock:
        sock.sendall(f"action=get\nprotocol=http\nhost=127.0.0.1:418\npath={APP}\n".encode())
        sock.shutdown(socket.SHUT_WR)
        world.loop.settle()
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        world.loop.pass_time(6)
        assert read_to_end(world.loop, sock).startswith(b"username=gitmoat\n")
    for each in idle:
        each.close()


def test_descriptors_sent_along_are_not_received(world: World) -> None:
    world.start()
    with connect(world) as sock, open(os.devnull) as extra:
        before = len(os.listdir("/proc/self/fd"))
        socket.send_fds(sock, [b"action=get\n"], [extra.fileno()] * 8)
        world.loop.settle()
        assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_another_uid_is_closed_at_once_and_reported(tmp_path: Path) -> None:
    world = World(tmp_path, helper_uid=61002)
    world.start()
    with connect(world) as sock:
        assert read_to_end(world.loop, sock) == b""
    assert reports(world) == [{"event": "peer-refused", "uid": os.getuid(), "code": "H101"}]
    stop(world)


def test_another_cgroup_is_closed_at_once_and_reported(tmp_path: Path) -> None:
    world = World(tmp_path, helper_cgroups=frozenset({2**63}))
    world.start()
    with connect(world) as sock:
        assert read_to_end(world.loop, sock) == b""
    assert reports(world) == [{"event": "peer-refused", "uid": os.getuid(), "code": "H102"}]
    stop(world)


def test_a_flood_of_refused_peers_costs_few_reports(tmp_path: Path) -> None:
    world = World(tmp_path, helper_uid=61002)
    world.start()
    for _ in range(300):
        with connect(world) as sock:
            read_to_end(world.loop, sock)
    world.loop.pass_time(5)
    assert 1 <= len(world.broker.reports) <= 25
    stop(world)


class Changing:
    """Attests the first time only: the peer died, or became another, before its answer."""

    def __init__(self) -> None:
        self.times = 0

    def attest(self, sock: socket.socket) -> AttestedPeer:
        self.times += 1
        if self.times > 1:
            raise NotAttested("gone", "H102", 5)
        return AttestedPeer(1, 5, 5, None)


def test_who_asks_is_checked_again_before_the_answer() -> None:
    loop, reports, ended = Loop(), list[Report](), list[bool]()
    issuer = Issuer(SCOPE, Tokens(loop.seconds), reports.append, loop.seconds)
    attestation: Any = Changing()
    ours, theirs = socket.socketpair()
    with ours:
        credential_port(loop, attestation, issuer)(theirs, lambda: ended.append(True))
        ours.sendall(format_request(Request("get", "http", "127.0.0.1:418", APP)))
        ours.shutdown(socket.SHUT_WR)
        ours.setblocking(False)
        assert read_to_end(loop, ours) == b"quit=1\n"
    assert reports == [Report(event=Event.CREDENTIAL_REFUSED, uid=5, code="H102")]
    assert ended == [True]


def test_reports_wait_for_the_broker_to_return(world: World) -> None:
    hostd: Hostd = world.start()
    hostd.reachable = False
    world.broker.kill()
    world.loop.settle()
    world.token(APP)
    world.loop.pass_time(60)
    assert world.broker.reports == []
    hostd.reachable = True
    world.loop.pass_time(40)
    assert len(world.broker.reports) == 1


def test_gits_own_credential_cache_client_works(world: World) -> None:
    world.start()
    request = f"protocol=http\nhost=127.0.0.1:418\npath={APP}\n\n"
    (world.folder / "request").write_text(request)
    done = run_beside(
        world.loop,
        ["sh", "-c", "git credential-cache --socket $PWD/cred.sock get < request"],
        world.folder,
    )
    assert done.stdout.startswith("username=gitmoat\npassword=")


def test_our_helper_works_and_checks_the_servers_uid(world: World) -> None:
    world.start()
    (world.folder / "request").write_text(f"protocol=http\nhost=127.0.0.1:418\npath={APP}\n")
    entry = Path(__file__).parents[4] / "credential_helper" / "__main__.py"
    for uid, served in ((os.getuid(), True), (os.getuid() + 1, False)):
        line = f"{sys.executable} -IS {entry} --server-uid {uid} --socket cred.sock get < request"
        done: subprocess.CompletedProcess[str] = run_beside(
            world.loop, ["sh", "-c", line], world.folder
        )
        assert done.stdout.startswith("username=gitmoat\n") == served, done.stderr
