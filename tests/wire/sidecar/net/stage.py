"""Brings an exchange of a whole sidecar to what it waits for, and lets the event happen."""

from __future__ import annotations

import socket
from enum import Enum, auto

from attrs import define, field

from gitmoat.net.causes import Why
from gitmoat.net.http.incoming import Incoming
from gitmoat.net.http.outgoing import Outgoing
from gitmoat.net.timing import Timeouts
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.http.formatting import format_response
from gitmoat.wire.http.heads import Chunked, Piece
from netpolicy.format.document import parse_policy
from tests.fakes.clienthello import message, records, sni
from tests.fakes.sidecar_requests import question
from tests.fakes.sidecar_scope import POLICY_TEXT, basic
from tests.fakes.sidecar_world import Client, Hostd, World
from tests.wire.sidecar.net.cells import Event, Kind, Wait
from tests.wire.sidecar.net.namespace import Namespace

HOST = "files.example"
POLICY = parse_policy(
    POLICY_TEXT
    + f'[[egress]]\nid = "files"\nhosts = ["{HOST}"]\n'
    + f'[[egress]]\nid = "plain"\nhosts = ["{HOST}"]\nscheme = "http"\nmethods = ["GET", "POST"]\n'
)
REPOSITORY = "hub.example/acme/app"
HELLO = records(message(sni(HOST.encode())))
BODY = b"0000" * 16
ESTABLISHED = b"HTTP/1.1 200 "
# Two links for git, of which untrusted code may hold one, and one for other hosts.
LINKS = {"dial_cap": 2, "egress_cap": 1}
PATIENT = Timeouts(idle=10_000, wait=10_000)
_HELPER = (Kind.HELPER_REFS, Kind.HELPER_FETCH, Kind.HELPER_PUSH)
_SERVICES = {
    Kind.HELPER_FETCH: "git-upload-pack",
    Kind.FETCH: "git-upload-pack",
    Kind.HELPER_PUSH: "git-receive-pack",
    Kind.PUSH: "git-receive-pack",
}


def links_of(kind: Kind) -> int:
    """How many links requests of this kind may hold at a time."""
    return 3 if kind in _HELPER else 1


def content_type(kind: Kind) -> bytes:
    if not kind.git:
        return b"text/plain"
    if kind in _SERVICES:
        return f"application/x-{_SERVICES[kind]}-result".encode()
    return b"application/x-git-upload-pack-advertisement"


class Does(Enum):
    """What the broker does with a request."""

    READ = auto()  # and say nothing
    BEGIN = auto()  # an answer, and stop in it
    POUR = auto()  # an answer without an end
    SERVE = auto()


@define(eq=False)
class Taken:
    """One request as the broker took it: all that came of it, and whether its link is gone."""

    _kind: Kind
    _does: Does
    incoming: Incoming
    octets: int = 0
    gone: bool = False
    end: TunnelEnd | None = None
    _out: Outgoing | None = None
    _paused: bool = False

    def start(self) -> None:
        if self._does is Does.READ:
            self.incoming.on_lost(self._lost)
            self.incoming.stream(self)
        elif self._kind.tunnel:
            self.end = self.incoming.tunnel(format_response(200, ()))
            self.end.attach(_TunnelEnd(self, self.end))
        else:
            self.incoming.on_lost(self._lost)
            self.incoming.stream(self)

    def _lost(self) -> None:
        self.gone = True

    # The request's body

    def body(self, *pieces: Piece) -> None:
        self.octets += sum(map(len, pieces))

    def body_done(self) -> None:
        headers = ((b"Content-Type", content_type(self._kind)),)
        if self._does is Does.SERVE:
            self.incoming.reply(200, headers, b"served")
        elif self._does is not Does.READ:
            self._out = out = self.incoming.begin(200, headers, Chunked())
            out.write(b"begun")
            if self._does is Does.POUR:
                out.bind_source(self._pause, self._resume)
                self._resume()

    def body_failed(self, why: Why) -> None:
        self.gone = True

    def _pause(self) -> None:
        self._paused = True

    def _resume(self) -> None:
        self._paused = False
        while self._out is not None and not self._paused and self._out.alive:
            self._out.write(bytes(65536))

    # A tunnel

    def data(self, octets: bytes) -> None:
        self.octets += len(octets)
        if self.end is not None:
            self.end.write(b"begun")
            self.flowed()

    def lost(self, cleanly: bool) -> None:
        self.gone = True

    def flowed(self) -> None:
        while self._does is Does.POUR and self.end is not None and not self._blocked():
            self.end.write(bytes(65536))

    def _blocked(self) -> bool:
        return self.gone or self.end is None or self.end.blocked


class _TunnelEnd:
    """What the end of a tunnel tells; a broker closes its end when the sidecar closes."""

    def __init__(self, taken: Taken, end: TunnelEnd) -> None:
        self._taken, self._tunnel_end = taken, end

    def data(self, octets: bytes) -> None:
        self._taken.data(octets)

    def ended(self) -> None:
        self._tunnel_end.finish()

    def all_sent(self) -> None:
        """It waits for the other end to close."""

    def lost(self, cleanly: bool) -> None:
        self._taken.lost(cleanly)

    def flowed(self) -> None:
        self._taken.flowed()


@define(eq=False)
class Stage:
    kind: Kind
    world: World
    namespace: Namespace
    does: Does = Does.READ
    taken: list[Taken] = field(factory=list)
    clients: list[Client] = field(factory=list)
    hostd: Hostd = field(init=False)
    _mute: socket.socket | None = field(default=None, init=False)

    # What it waits for

    def bring_to(self, wait: Wait) -> Client:
        self.world.broker.timeouts = PATIENT
        self.world.broker.handler = self._take
        self.hostd = Hostd(self.world)
        self.hostd.silent = wait in (Wait.DIAL, Wait.HANDSHAKE)
        self.hostd.send("activate")
        self.world.loop.settle()
        self.does = _DOES[wait]
        client = self.ask(cut=wait is Wait.BODY, hello=wait is not Wait.HELLO, reads=_reads(wait))
        if wait is Wait.HANDSHAKE:
            self.world.loop.settle()
            self._connect_to_nobody()
        self.world.loop.settle(lambda: self._waits(wait, client))
        self.world.loop.settle()
        return client

    def ask(self, cut: bool = False, hello: bool = True, reads: bool = True) -> Client:
        """One request of this kind; `cut`: half of its body is kept back."""
        client = self._client()
        raw = self._request()
        client.send(raw[: -len(BODY) // 2] if cut else raw)
        if self.kind is Kind.TUNNEL and hello and self.does is not Does.READ:
            self.world.loop.settle(lambda: client.received.startswith(ESTABLISHED))
            client.send(HELLO)
        if self.kind is Kind.DIRECT_TLS:
            client.send(HELLO if hello else HELLO[:20])
        if not reads:
            self.world.loop.removeReader(client)
        self.clients.append(client)
        return client

    def send_rest(self, client: Client) -> None:
        client.send(BODY[len(BODY) // 2 :])

    def _waits(self, wait: Wait, client: Client) -> bool:
        match wait:
            case Wait.DIAL | Wait.HANDSHAKE:
                return not self.taken
            case Wait.HELLO if self.kind is Kind.DIRECT_TLS:
                return not self.taken
            case Wait.HELLO:
                return client.received.startswith(ESTABLISHED)
            case Wait.BODY:
                return bool(self.taken) and self.taken[0].octets == len(BODY) // 2
            case Wait.HEAD:
                return bool(self.taken) and self.taken[0].incoming.body_ended
            case Wait.ANSWER | Wait.BOTH:
                return b"begun" in client.received
            case Wait.UNREAD:
                return bool(self.taken) and self._stuck(self.taken[0])

    def _stuck(self, taken: Taken) -> bool:
        if taken.end is not None:
            return taken.end.blocked
        return taken.incoming.begun and taken.incoming.blocked

    def _take(self, incoming: Incoming) -> None:
        taken = Taken(self.kind, self.does, incoming)
        self.taken.append(taken)
        taken.start()

    def _connect_to_nobody(self) -> None:
        """What hostd was asked for, connected to a listener that never accepts."""
        self._mute = mute = socket.create_server(("127.0.0.1", 0))
        for _ in range(self.hostd.dials):
            with socket.create_connection(mute.getsockname()) as sock:
                self.hostd.send("connection", sock.fileno())

    # What happens

    def happen(self, event: Event, wait: Wait, client: Client) -> None:
        match event:
            case Event.RESET:
                client.vanish()
            case Event.CLOSED:
                client.close()
            case Event.LOST:
                self._lose(wait)
            case Event.STOP:
                self.hostd.send("stop")
            case Event.LATE:
                self._be_late(wait)
        self.world.loop.settle()

    def _lose(self, wait: Wait) -> None:
        self.does = Does.SERVE
        if wait in (Wait.DIAL, Wait.HANDSHAKE):
            self.hostd.silent = False
            if self._mute is not None:
                self._mute.close()
            else:
                for _ in range(self.hostd.dials):
                    self.hostd.send("dial-failed")
        else:
            self.world.broker.kill()

    def _be_late(self, wait: Wait) -> None:
        opened = wait in (Wait.BOTH, Wait.UNREAD) and self.kind.tunnel
        seconds, step = (640.0, 10.0) if opened else _LATE.get(wait, (110.0, 5.0))
        # The kernel may still move octets to a client that does not read: the time begins anew.
        for _ in range(3 if wait is Wait.UNREAD else 1):
            self.world.loop.pass_time(seconds, step)

    def go_on(self) -> None:
        """The broker can be reached, and as much time passes as its links need to be there."""
        if self._mute is not None:
            self._mute.close()
        elif self.hostd.silent:
            for _ in range(self.hostd.dials):
                self.hostd.answer_dial()
        self.hostd.silent = False
        self.world.loop.settle()
        self.world.loop.pass_time(12, step=0.5)

    def end(self) -> None:
        for client in self.clients:
            if not client.over:
                client.vanish()
        if self._mute is not None:
            self._mute.close()
        self.world.loop.settle()

    # The client

    def _client(self) -> Client:
        world = self.world
        match self.kind:
            case Kind.HELPER_REFS | Kind.HELPER_FETCH | Kind.HELPER_PUSH:
                return Client(world.loop, world.helper_port)
            case Kind.REFS | Kind.FETCH | Kind.PUSH:
                return Client(world.loop, world.untrusted_port)
            case Kind.GET | Kind.POST | Kind.TUNNEL:
                return Client(world.loop, world.proxy_port)
            case Kind.DIRECT_GET | Kind.DIRECT_POST:
                return self._direct(world.plain_port)
            case Kind.DIRECT_TLS:
                return self._direct(world.tls_port)

    def _direct(self, port: int) -> Client:
        return Client(self.world.loop, port, self.namespace.connect(self._address(), port))

    def _address(self) -> str:
        """What the sidecar's DNS says of the host."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", self.world.dns_port))
            sock.send(question(1, HOST))
            self.world.loop.settle()
            return socket.inet_ntoa(sock.recv(512, socket.MSG_DONTWAIT)[-4:])

    def _request(self) -> bytes:
        kind = self.kind
        if kind is Kind.DIRECT_TLS:
            return b""
        if kind is Kind.TUNNEL:
            return f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode()
        method = "POST" if kind.has_body else "GET"
        lines = [f"{method} {self._target()} HTTP/1.1", f"Host: {self._host()}"]
        if kind in _SERVICES:
            lines.append(f"Content-Type: application/x-{_SERVICES[kind]}-request")
        if kind in _HELPER:
            lines.append(basic(self.world.token(REPOSITORY)))
        body = BODY if kind.has_body else b""
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def _target(self) -> str:
        if self.kind in _SERVICES:
            return f"/{REPOSITORY}/{_SERVICES[self.kind]}"
        if self.kind.git:
            return f"/{REPOSITORY}/info/refs?service=git-upload-pack"
        return f"http://{HOST}/" if self.kind in (Kind.GET, Kind.POST) else "/"

    def _host(self) -> str:
        return "127.0.0.1:418" if self.kind.git else HOST


_DOES = {
    Wait.HELLO: Does.BEGIN,
    Wait.DIAL: Does.READ,
    Wait.HANDSHAKE: Does.READ,
    Wait.BODY: Does.READ,
    Wait.HEAD: Does.READ,
    Wait.ANSWER: Does.BEGIN,
    Wait.BOTH: Does.BEGIN,
    Wait.UNREAD: Does.POUR,
}
# Seconds after which each is given up, and a bit; with the steps in which they pass.
_LATE = {
    Wait.HELLO: (11.0, 1.0),
    Wait.DIAL: (9.0, 0.5),
    Wait.HANDSHAKE: (9.0, 0.5),
}


def _reads(wait: Wait) -> bool:
    return wait is not Wait.UNREAD
