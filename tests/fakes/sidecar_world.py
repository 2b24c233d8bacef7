"""A whole sidecar on real sockets, between a fake hostd, a fake broker and the sandbox.

Everything runs on one reactor turned by hand, so tests decide when time passes.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from credential_helper.gitcredential import Request, format_request
from gitmoat.identity.certificates import key_of, self_signed
from gitmoat.identity.tls_options import PinnedServer
from gitmoat.listeners import named
from gitmoat.messages.sidecar import SidecarConfig, Uids, parse_config
from gitmoat.net.causes import Why
from gitmoat.net.http.incoming import Incoming
from gitmoat.net.http.server_end import ServerConnection
from gitmoat.net.timing import Timeouts
from gitmoat.net.transport.seqpacket import SeqpacketConnection
from gitmoat.net.transport.tls import Tls
from gitmoat.wire.http.heads import Piece, RequestHead
from gitmoat.wire.http.proxying import ProxyReader
from sidecar.kind import AnyKind
from sidecar.kinds import KINDS
from sidecar.service import Service
from tests.fakes.hand_loop import HandLoop
from tests.fakes.sidecar_scope import config_bytes
from tests.waiting import PATIENCE

BROKER_SEED = bytes([7] * 32)
SIDECAR_SEED = bytes([8] * 32)


def _datagrams() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made


def public(seed: bytes) -> bytes:
    key = key_of(self_signed(seed)[1])
    assert key is not None
    return key


class Loop(HandLoop):
    """A hand-turned reactor that adopts descriptors as a real one does."""

    def turn_until(self, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Ticket while real time passes; the clock of the test stands still."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, "waited too long"
            self._turn()

    def pass_time(self, seconds: float, step: float = 0.25) -> None:
        """Let the clock of the test run, with all traffic between its steps."""
        while seconds > 0:
            self.advance(min(step, seconds))
            seconds -= step
            self.settle()


class Hostd:
    """hostd's end of the control socket: dials when asked, if it is told to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: list[bytes] = []
        self.lost = False
        self.reachable = True
        self.silent = False
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(world.folder / "ctl.sock"))
        self.link = SeqpacketConnection(world.loop, sock, self._received, self._lost)

    @property
    def dials(self) -> int:
        return sum(message[:1] == b"D" for message in self.messages)

    def send(self, operation: str, *fds: int) -> None:
        self.link.send(b'{"op":"%s"}' % operation.encode(), fds)

    def _received(self, data: bytes, fds: list[int]) -> None:
        assert not fds
        self.messages.append(data)
        if data[:1] == b"D" and not self.silent:
            self.answer_dial()

    def answer_dial(self) -> None:
        if not self.reachable:
            self.send("dial-failed")
            return
        with socket.create_connection(("127.0.0.1", self.world.broker.port)) as sock:
            self.send("connection", sock.fileno())

    def _lost(self) -> None:
        self.lost = True


class _Heard(ServerConnection):
    """Keeps what it hears, as it came."""

    heard: bytearray

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        super().dataReceived(data)


class Broker:
    """The broker's end: pinned TLS, requests go to `handler`; every head is kept."""

    def __init__(self, world: World, seed: bytes = BROKER_SEED) -> None:
        self.world = world
        self.heads: list[RequestHead] = []
        self.reports: list[bytes] = []
        self.heard = bytearray()  # on all links, reports included
        self.connections: list[ServerConnection] = []
        self.open = 0
        self.admitted = frozenset({public(SIDECAR_SEED)})
        self.handler: Callable[[Incoming], None] = refuse
        self.timeouts = Timeouts()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._server = PinnedServer(seed, lambda key: key in self.admitted)
        world.loop.addReader(self)

    def fileno(self) -> int:
        return self._listener.fileno()

    def close(self) -> None:
        self.world.loop.removeReader(self)
        self._listener.close()

    def kill(self) -> None:
        """All connections reset at once, as by SIGKILL."""
        for connection in self.connections:
            connection.abort()

    def doRead(self) -> None:
        sock, _ = self._listener.accept()
        connection = _Heard(
            self.world.loop,
            self._requested,
            self.timeouts,
            secure=True,
            on_lost=self._lost,
            reader=ProxyReader,
        )
        connection.heard = self.heard
        self.connections.append(connection)
        self.open += 1
        Tls(self.world.loop, sock, connection, self._server.connection()).start()

    def _lost(self) -> None:
        self.open -= 1

    def _requested(self, incoming: Incoming) -> None:
        if incoming.head.target == b"/report":
            Collected(incoming, self._reported)
            return
        self.heads.append(incoming.head)
        self.handler(incoming)

    def _reported(self, incoming: Incoming, body: bytes) -> None:
        self.reports.append(body)
        incoming.reply(204, ())


class Collected:
    """A request's whole body, for handlers that want it so."""

    def __init__(self, incoming: Incoming, done: Callable[[Incoming, bytes], None]) -> None:
        self._incoming = incoming
        self._done = done
        self._pieces: list[Piece] = []
        incoming.stream(self)

    def body(self, *pieces: Piece) -> None:
        self._pieces += pieces

    def body_done(self) -> None:
        self._done(self._incoming, b"".join(self._pieces))

    def body_failed(self, why: Why) -> None:
        self._pieces.clear()


def refuse(incoming: Incoming) -> None:
    incoming.reply(503, ((b"Content-Type", b"text/plain"),), b"not today\n")


class World:
    """Start it, then `hostd` connects and activates when the test says so."""

    def __init__(
        self,
        folder: Path,
        helper_uid: int | None = None,
        listen: Callable[[], socket.socket] = lambda: socket.create_server(("127.0.0.1", 0)),
        kinds: Sequence[AnyKind] = KINDS,
        **changes: Any,
    ) -> None:
        """`listen` makes the listeners of the synthetic addresses' ports."""
        self.folder = folder
        self.kinds = kinds
        self.helper_uid = os.getuid() if helper_uid is None else helper_uid
        self.loop = Loop()
        self._ended = False
        self.broker = Broker(self)
        self._listeners = [
            socket.create_server(("127.0.0.1", 0), backlog=128),
            socket.create_server(("127.0.0.1", 0), backlog=128),
            self._unix("cred.sock", socket.SOCK_STREAM),
            self._unix("ctl.sock", socket.SOCK_SEQPACKET),
            _datagrams(),
            *(socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(2)),
            listen(),
            listen(),
        ]
        self.dns_port: int = self._listeners[4].getsockname()[1]
        self.plain_port: int = self._listeners[7].getsockname()[1]
        self.tls_port: int = self._listeners[8].getsockname()[1]
        self.proxy_port: int = self._listeners[6].getsockname()[1]
        self.helper_port: int = self._listeners[0].getsockname()[1]
        self.untrusted_port: int = self._listeners[1].getsockname()[1]
        self.config = self._config(changes)
        self._launch(named([each.detach() for each in self._listeners]))

    def _launch(self, fds: dict[str, int]) -> None:
        ours = frozenset({os.getuid()})
        self.service = Service(
            self.loop, self.config, fds, SIDECAR_SEED, self._stopped, ours, self.kinds
        )

    def start(self) -> Hostd:
        hostd = Hostd(self)
        hostd.send("activate")
        self.loop.settle()
        return hostd

    def _unix(self, name: str, kind: int) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(str(self.folder / name))
        listener.listen(64)
        return listener

    def _config(self, changes: dict[str, Any]) -> SidecarConfig:
        config = parse_config(config_bytes())
        uids = Uids(sidecar=61001, helper=self.helper_uid, untrusted=61003)
        keys = frozenset({public(BROKER_SEED)})
        return evolve(config, uids=uids, broker_keys=keys, **changes)

    def has_stopped(self) -> bool:
        return self._ended

    def _stopped(self) -> None:
        self._ended = True

    # The sandbox

    def request(self, port: int, raw: bytes) -> Client:
        client = Client(self.loop, port)
        client.send(raw)
        return client

    def answer(self, port: int, raw: bytes) -> bytes:
        client = self.request(port, raw)
        self.loop.turn_until(lambda: client.whole or client.over)
        client.close()
        return client.received

    def credential(self, path: str, action: str = "get") -> bytes:
        return self.ask(format_request(Request(action, "http", "127.0.0.1:418", path)))

    def ask(self, raw: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(self.folder / "cred.sock"))
            sock.sendall(raw)
            sock.shutdown(socket.SHUT_WR)
            sock.setblocking(False)
            return read_to_end(self.loop, sock)

    def token(self, path: str) -> str:
        answer = dict(line.split("=", 1) for line in self.credential(path).decode().splitlines())
        assert answer["username"] == "gitmoat"
        return answer["password"]

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Real git as a client; it runs while the loop is turned."""
        return run_beside(self.loop, ["git", *arguments], self.folder)


class Client:
    """A raw client; knows the end of a response with a Content-Length."""

    def __init__(self, loop: Loop, port: int, sock: socket.socket | None = None) -> None:
        self.loop = loop
        self.sock = sock or socket.create_connection(("127.0.0.1", port))
        self.sock.setblocking(False)
        self.received = b""
        self.over = False
        self.reset = False
        loop.addReader(self)

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, raw: bytes) -> None:
        self.sock.sendall(raw)

    def doRead(self) -> None:
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            self.reset, data = True, b""
        self.received += data
        if not data:
            self.close()

    def close(self) -> None:
        if not self.over:
            self.over = True
            self.loop.removeReader(self)
            self.sock.close()

    def vanish(self) -> None:
        """Gone with a reset; a mere close could still want its answer."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    @property
    def whole(self) -> bool:
        head, blank, body = self.received.partition(b"\r\n\r\n")
        lines = [line.split(b": ") for line in head.split(b"\r\n")[1:]]
        length = dict(lines).get(b"Content-Length") if blank else None
        return length is not None and len(body) >= int(length)


def read_to_end(loop: Loop, sock: socket.socket) -> bytes:
    pieces: list[bytes] = []

    def ended() -> bool:
        try:
            data = sock.recv(65536)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        pieces.append(data)
        return not data

    loop.turn_until(ended)
    return b"".join(pieces)


def run_beside(
    loop: Loop, command: list[str], folder: Path, user: int | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=err, user=user
        )
        try:
            loop.turn_until(lambda: process.poll() is not None)
        finally:
            process.kill()
            process.wait()
    return subprocess.CompletedProcess(
        command, process.returncode, (folder / "out").read_text(), (folder / "err").read_text()
    )


class GitBackend:
    """Answers the broker's git requests with `git http-backend` from a folder of repositories."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, incoming: Incoming) -> None:
        Collected(incoming, self._serve)

    def _serve(self, incoming: Incoming, body: bytes) -> None:
        head = incoming.head
        path, _, query = head.target.decode().partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/git/hub"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": head.method.decode(),
            "CONTENT_TYPE": (head.header(b"content-type") or b"").decode(),
            "HTTP_CONTENT_ENCODING": (head.header(b"content-encoding") or b"").decode(),
            "GIT_PROTOCOL": (head.header(b"git-protocol") or b"").decode(),
            "REMOTE_USER": "test",
        }
        done = subprocess.run(
            ["git", "http-backend"], env=environment, input=body, capture_output=True, check=True
        )
        raw, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in raw.split(b"\r\n"))
        status = int(fields.get(b"Status", b"200")[:3])
        incoming.reply(status, ((b"Content-Type", fields[b"Content-Type"]),), content)
