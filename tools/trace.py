"""How many modules take part in one request, and how often it goes from one to another.

`python -m tools.trace` runs a broker, then a sidecar, each alone in this process; whoever speaks
with them is in another one. A switch is a call from one of our modules into another, whatever
library is between them. Every request is made before it is counted, so that caches and
connections are there; of several rounds the one with the fewest switches is shown. A fetch and
a push are what git makes of them: the discovery, then the POST. A tunnel keeps its link to the
broker, so one more link is part of it.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from gitmoat.net.http.incoming import Incoming
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.formatting import format_response
from gitmoat.wire.http.proxying import format_connect
from netpolicy.format.document import parse_policy
from tests.fakes import broker_world, sidecar_world
from tests.fakes.fake_upstream import FakeUpstream, ok
from tests.fakes.sidecar_scope import POLICY_TEXT
from tools.size import part_of

FETCH, PUSH, CREDENTIAL, TUNNEL = (
    "an allowed fetch", "a refused push", "a credential lookup", "a tunnel",
)  # fmt: skip
ROUNDS = 3
_ELSEWHERE = "203.0.113.5"
_EGRESS = '[[egress]]\nid = "web"\nhosts = ["web.example"]\n'
_CONNECT = b"CONNECT web.example:443 HTTP/1.1\r\nHost: web.example:443\r\n\r\n"
_REFUSED = broker_world.commands("refs/heads/main") + broker_world.PACK_HEAD
# A ClientHello that names web.example, as far as the broker reads it.
_NAME = b"\0\0\0\x10\0\x0e\0\0\x0bweb.example"
_BODY = b"\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0" + len(_NAME).to_bytes(2, "big") + _NAME
_SHAKE = b"\1" + len(_BODY).to_bytes(3, "big") + _BODY
HELLO = b"\x16\3\1" + len(_SHAKE).to_bytes(2, "big") + _SHAKE


class Counting:
    """What the threads of this process call, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.modules: Counter[str] = Counter()
        self.switches: Counter[tuple[str, str]] = Counter()

    def begin(self) -> None:
        self.modules.clear()
        self.switches.clear()
        self.on = True

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self.on or event != "call":
            return
        name = _ours(frame)
        # fileno: the loop that is turned by hand asks everything it waits for, at every turn.
        if name is None or frame.f_code.co_name in ("<module>", "fileno"):
            return
        self.modules[name] += 1
        caller = frame.f_back
        while caller is not None and _ours(caller) is None:
            caller = caller.f_back
        other = _ours(caller) if caller is not None else None
        if other is not None and other != name:
            self.switches[other, name] += 1


def _ours(frame: FrameType) -> str | None:
    name: str = frame.f_globals.get("__name__") or ""
    return name if part_of(name) else None


@frozen
class Seen:
    """One request in one process."""

    modules: tuple[str, ...]
    switches: int

    def __str__(self) -> str:
        return f"{len(self.modules):3} modules, {self.switches:4} switches"


def fewest(seen: Iterable[Seen]) -> Seen:
    return min(seen, key=lambda each: each.switches)


def _seen(counting: Counting) -> Seen:
    counting.on = False
    return Seen(tuple(sorted(counting.modules)), counting.switches.total())


def _end_without_parent() -> None:
    parent = parent_process()
    if parent is not None and not parent.is_alive():
        sys.exit("trace: the process that counts is gone")


# The broker


def trace_broker(folder: Path, rounds: int) -> dict[str, Seen]:
    near, far = get_context("fork").Pipe()
    peers = get_context("fork").Process(
        target=_sidecar_and_upstream, args=(folder, far), daemon=True
    )
    peers.start()
    far.close()
    counting = Counting()
    threading.setprofile(counting.profile)
    sys.setprofile(counting.profile)
    try:
        found: dict[str, Seen] = _in_reactor(
            lambda reactor: _trace_broker(reactor, folder, near, counting, rounds)
        )
        return found
    finally:
        sys.setprofile(None)
        peers.terminate()
        peers.join()


async def _trace_broker(
    reactor: Any, folder: Path, peers: Connection, counting: Counting, rounds: int
) -> dict[str, Seen]:
    upstream, outside = await _answer(reactor, peers)
    _lead_outside_to(outside)
    world = broker_world.World(reactor, folder / "broker", upstream)
    world.start()
    peers.send((world.audience, world.port))
    found: dict[str, list[Seen]] = {FETCH: [], PUSH: [], TUNNEL: []}
    for number in range(rounds + 1):
        for what, seen in found.items():
            counting.begin()
            peers.send(what)
            await _answer(reactor, peers)
            await _quiet(reactor, counting)
            if number:
                seen.append(_seen(counting))
    await world.stop()
    return {what: fewest(seen) for what, seen in found.items()}


async def _answer(reactor: Any, peers: Connection) -> Any:
    while not peers.poll():
        await deferLater(reactor, 0.01)
        _end_without_parent()
    return peers.recv()  # EOFError when the other process has failed


async def _quiet(reactor: Any, counting: Counting) -> None:
    before = -1
    while counting.switches.total() != before:
        before = counting.switches.total()
        await deferLater(reactor, 0.3)


def _lead_outside_to(port: int) -> None:
    """Other hosts are found and dialled as they are in use, but for what the kernel is told."""
    connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        away = self.type == socket.SOCK_STREAM and address[0] == _ELSEWHERE
        connect(self, ("127.0.0.1", port) if away else address)

    def lookup(host: Any, *more: Any, **named: Any) -> list[Any]:
        if host != b"web.example.":
            return getaddrinfo(host, *more, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (_ELSEWHERE, 0))]

    changed: Any = socket
    changed.socket.connect = connect_here
    changed.getaddrinfo = lookup


def _sidecar_and_upstream(folder: Path, broker: Connection) -> None:
    """The other process beside the broker: asks as a sidecar, answers as a git server."""
    _in_reactor(lambda reactor: _ask_for_ever(reactor, folder, broker))


async def _ask_for_ever(reactor: Any, folder: Path, broker: Connection) -> None:
    upstream = FakeUpstream(reactor)
    upstream.on_request = lambda talk: talk.say(_upstream_answer(talk.upstream.heads[-1]))
    outside = socket.create_server(("127.0.0.1", 0))
    broker.send((upstream.port, outside.getsockname()[1]))
    world = broker_world.World(reactor, folder / "asker")
    world.audience, world.port = await _answer(reactor, broker)
    sidecar = await world.session(broker_world.POLICY + _EGRESS)
    while True:
        what = await _answer(reactor, broker)
        if what == FETCH:
            _check(await sidecar.refs())
            _check(await sidecar.fetch())
        elif what == PUSH:
            _check(await sidecar.refs(service="git-receive-pack"))
            _check(await sidecar.push(_REFUSED), b"ng refs/heads/main")
        else:
            await _tunnel(reactor, await world.connect(sidecar.key, broker_world.Sidecar), outside)
        broker.send(what)


def _check(reply: broker_world.Reply, part: bytes = b"") -> None:
    if reply.error or reply.status != 200 or part not in reply.data:
        raise RuntimeError(f"the broker answered {reply.head} {reply.data!r} {reply.error}")


async def _tunnel(reactor: Any, sidecar: broker_world.Sidecar, outside: socket.socket) -> None:
    opened: Deferred[Any] = Deferred()
    extra = ((b"Gitmoat-Request-Id", broker_world.ID.encode()),)
    head = format_connect(Destination(HostName("web.example"), 443), extra)
    reply = broker_world.Reply()
    sidecar.connection.connect(head, reply, opened.callback)
    raw = await opened
    raw.attach(_Nobody())
    raw.write(HELLO)
    sock, _ = outside.accept()
    sock.setblocking(False)
    while not _read(sock):
        await deferLater(reactor, 0.01)
    sock.close()
    sidecar.connection.abort()


def _read(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except BlockingIOError:
        return b""


class _Nobody:
    """The end of a tunnel that hears nothing."""

    def data(self, octets: bytes) -> None: ...
    def ended(self) -> None: ...
    def all_sent(self) -> None: ...
    def lost(self, cleanly: bool) -> None: ...
    def flowed(self) -> None: ...


def _upstream_answer(head: bytes) -> bytes:
    service = Service.RECEIVE_PACK if b"receive-pack" in head else Service.UPLOAD_PACK
    if not head.startswith(b"GET"):
        return ok(service, "result", format_data(b"acknowledgments\n") + FLUSH)
    first = format_data(b"# service=" + service.value.encode() + b"\n")
    return ok(service, "advertisement", first + FLUSH + format_data(b"version 2\n") + FLUSH)


def _in_reactor(main: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    from twisted.internet import reactor as made

    reactor: Any = made
    result: list[Any] = []

    def ended(value: Any) -> None:
        result.append(value)
        reactor.stop()

    reactor.callWhenRunning(lambda: ensureDeferred(main(reactor)).addBoth(ended))
    reactor.run(installSignalHandlers=False)
    if isinstance(result[0], Failure):
        result[0].raiseException()
    return result[0]


# The sidecar


class _Peers:
    """hostd and the broker, on a loop of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = sidecar_world.Loop()
        self.broker: Any = None


def trace_sidecar(folder: Path, rounds: int) -> dict[str, Seen]:
    policy = parse_policy(POLICY_TEXT + _EGRESS)
    loop: Any = sidecar_world.Loop
    loop.buffered = 0  # else the loop asks every transport at every turn
    world = sidecar_world.World(folder, policy=policy)
    peers = get_context("fork").Process(target=_hostd_and_broker, args=(folder,), daemon=True)
    peers.start()
    counting = Counting()
    sys.setprofile(counting.profile)
    asked: dict[str, Callable[[], None]] = {
        FETCH: lambda: _git(world, "git-upload-pack", b"0000"),
        PUSH: lambda: _git(world, "git-receive-pack", _REFUSED),
        CREDENTIAL: lambda: _credential(world),
        TUNNEL: lambda: _proxied(world),
    }
    found: dict[str, list[Seen]] = {what: [] for what in asked}
    try:
        for number in range(rounds + 1):
            for what, ask in asked.items():
                counting.begin()
                ask()
                _still(world, counting)
                if number:
                    found[what].append(_seen(counting))
    finally:
        sys.setprofile(None)
        peers.terminate()
        peers.join()
    return {what: fewest(seen) for what, seen in found.items()}


def _git(world: sidecar_world.World, service: str, body: bytes) -> None:
    path, host = "/hub.example/acme/app", "Host: 127.0.0.1:419\r\n"
    refs = f"GET {path}/info/refs?service={service} HTTP/1.1\r\n{host}\r\n"
    head = f"POST {path}/{service} HTTP/1.1\r\n{host}Content-Length: {len(body)}\r\n"
    head += f"Content-Type: application/x-{service}-request\r\n\r\n"
    for raw in (refs.encode(), head.encode() + body):
        answer = world.answer(world.untrusted_port, raw)
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"the sidecar answered {answer!r}")


def _credential(world: sidecar_world.World) -> None:
    raw = b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=hub.example/acme/gate\n"
    answer = world.ask(raw)
    if b"password=" not in answer:
        raise RuntimeError(f"the sidecar answered {answer!r}")


def _proxied(world: sidecar_world.World) -> None:
    client = world.request(world.proxy_port, _CONNECT)
    world.loop.turn_until(lambda: b"\r\n\r\n" in client.received)
    client.send(HELLO)
    world.loop.turn_until(lambda: client.received.endswith(b"world"))
    client.close()


def _still(world: sidecar_world.World, counting: Counting) -> None:
    before = -1
    while counting.switches.total() != before:
        before = counting.switches.total()
        for _ in range(50):
            world.loop._turn()


def _hostd_and_broker(folder: Path) -> None:
    peers: Any = _Peers(folder)
    peers.broker = sidecar_world.Broker(peers)
    peers.broker.handler = _broker_answer
    hostd = sidecar_world.Hostd(peers)
    hostd.send("activate")
    while True:
        peers.loop._turn()
        _end_without_parent()


def _broker_answer(incoming: Incoming) -> None:
    head = incoming.head
    if head.method == b"CONNECT":
        _Echo(incoming)
        return
    service = b"git-receive-pack" if b"receive-pack" in head.target else b"git-upload-pack"
    kind = b"advertisement" if head.method == b"GET" else b"result"
    headers = ((b"Content-Type", b"application/x-%s-%s" % (service, kind)),)
    sidecar_world.Collected(incoming, lambda asked, _: asked.reply(200, headers, b"0000"))


class _Echo(_Nobody):
    def __init__(self, incoming: Incoming) -> None:
        self._raw = incoming.tunnel(format_response(200, ()))
        self._raw.attach(self)

    def data(self, octets: bytes) -> None:
        self._raw.write(b"world")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", action="store_true", help="name the modules")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of which the best is shown")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "sidecar").mkdir()
        sidecar = trace_sidecar(place / "sidecar", arguments.rounds)
        broker = trace_broker(place, arguments.rounds)
    for what in (FETCH, PUSH, CREDENTIAL, TUNNEL):
        for process, seen in (("sidecar", sidecar), ("broker", broker)):
            print(f"{what:20} {process:8} {seen.get(what, '  takes no part')}")
            if arguments.modules and what in seen:
                print("    " + " ".join(seen[what].modules))


if __name__ == "__main__":
    main()
