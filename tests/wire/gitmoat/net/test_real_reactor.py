"""The same on Twisted's own reactor: epoll reports ends and resets in its own way."""

import hashlib
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any, cast

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from gitmoat.net.causes import Why
from gitmoat.net.http.ends import ClientConnection, Incoming, ServerConnection
from gitmoat.net.relay import Broken, Outcome, Relay, Relayed
from gitmoat.net.transport.accepting import Acceptor
from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.transport.dialling import connect
from gitmoat.wire.http.heads import (
    Chunked,
    Framing,
    Length,
    NoBody,
    Piece,
    format_request,
    framing_headers,
)
from tests.fakes.hand_loop import UnderTls
from tests.fakes.http_ends import Recorder, get
from tests.fakes.tls_hops import client_options, same, server_options
from tests.waiting import PATIENCE

BLOCK = bytes(range(256)) * 256
BLOCKS = 256


def the_reactor() -> Any:
    from twisted.internet import reactor

    return reactor


class RelayOnSockets:
    """A plain port whose requests are relayed over TLS to an upstream."""

    def __init__(self, on_upstream: Callable[[Incoming], None]) -> None:
        self.outcomes: list[Outcome] = []
        self._connections: list[ServerConnection | ClientConnection] = []
        self._acceptors: list[Acceptor] = []
        self.upstream = self._listen(on_upstream, secure=True)
        self.front = self._listen(self._relay, secure=False)

    async def dial(self, port: int, secure: bool) -> ClientConnection:
        ready: Deferred[ClientConnection] = Deferred()
        made = ClientConnection(the_reactor(), secure=secure, on_ready=ready.callback)
        sock = await connect(the_reactor(), [ip_address("127.0.0.1")], port, PATIENCE)
        self._start(made, sock, client_options() if secure else None)
        return await ready

    async def close(self) -> None:
        for each in self._connections:
            each.abort()
        for acceptor in self._acceptors:
            acceptor.close()
        await pause()

    def _listen(self, on_request: Callable[[Incoming], None], secure: bool) -> int:
        def accepted(sock: socket.socket) -> None:
            made = ServerConnection(the_reactor(), on_request, secure=secure)
            self._start(made, sock, server_options() if secure else None)

        listener = socket.create_server(("127.0.0.1", 0))
        self._acceptors.append(Acceptor(the_reactor(), listener, None, accepted))
        self._acceptors[-1].start()
        return int(listener.getsockname()[1])

    def _start(
        self, made: ServerConnection | ClientConnection, sock: socket.socket, options: Any
    ) -> None:
        self._connections.append(made)
        if options is None:
            Descriptor(the_reactor(), sock, made).start()
        else:
            UnderTls(made, options, isinstance(made, ClientConnection)).connect(
                the_reactor(), sock
            ).start()

    def _relay(self, incoming: Incoming) -> None:
        Deferred.fromCoroutine(self._forward(incoming))

    async def _forward(self, incoming: Incoming) -> None:
        client = await self.dial(self.upstream, secure=True)
        framing = incoming.head.framing
        head = request(framing)
        self.outcomes.append(await Relay(incoming, client, head, framing, same).start())


def request(framing: Framing) -> bytes:
    method = b"GET" if isinstance(framing, NoBody) else b"POST"
    return format_request(method, b"/", [(b"Host", b"h"), *framing_headers(framing)])


def pause(seconds: float = 0.05) -> Any:
    return deferLater(the_reactor(), seconds, lambda: None)


class Blocks:
    """Writes its blocks as fast as they are taken."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self.left = BLOCKS
        self.paused = False
        out.bind_source(self._pause, self._resume)
        self._more()

    def _pause(self) -> None:
        self.paused = True

    def _resume(self) -> None:
        self.paused = False
        the_reactor().callLater(0, self._more)

    def _more(self) -> None:
        """A few at a time: a transport that breaks takes all, and tells of it in the next turn."""
        for _ in range(16):
            if self.paused or not self.out.alive:
                return
            if not self.left:
                self.out.finish()
                return
            self.left -= 1
            self.out.write(BLOCK)
        the_reactor().callLater(0, self._more)


class Digest(Recorder):
    """Keeps a digest, not the bytes."""

    def __init__(self, then: Callable[["Digest"], None]) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self.then = then

    def body(self, *pieces: Piece) -> None:
        self.digest.update(b"".join(pieces))

    def body_done(self) -> None:
        super().body_done()
        self.then(self)

    def failed(self, why: Why) -> None:
        super().failed(why)
        self.then(self)


def expected() -> str:
    return hashlib.sha256(BLOCK * BLOCKS).hexdigest()


@pytest.fixture
def worlds() -> Iterator[Callable[[Callable[[Incoming], None]], RelayOnSockets]]:
    made: list[RelayOnSockets] = []

    def make(on_upstream: Callable[[Incoming], None]) -> RelayOnSockets:
        made.append(RelayOnSockets(on_upstream))
        return made[-1]

    yield make
    for each in made:
        pytest_twisted.blockon(Deferred.fromCoroutine(each.close()))


Make = Callable[[Callable[[Incoming], None]], RelayOnSockets]


@pytest.mark.parametrize("framing", [Length(len(BLOCK) * BLOCKS), Chunked()])
@pytest_twisted.ensureDeferred  # type: ignore[untyped-decorator]
async def test_download_arrives_unchanged(worlds: Make, framing: Length | Chunked) -> None:
    world = worlds(lambda incoming: cast(None, Blocks(incoming.begin(200, (), framing))))
    client = await world.dial(world.front, secure=False)
    whole: Deferred[Digest] = Deferred()
    client.send(request(NoBody()), NoBody(), Digest(whole.callback))
    got = await whole.addTimeout(30, the_reactor())
    assert got.ends == ["done"] and got.digest.hexdigest() == expected()
    assert world.outcomes == [Relayed(200, 0, len(BLOCK) * BLOCKS)] and client.idle


@pytest.mark.parametrize("framing", [Length(len(BLOCK) * BLOCKS), Chunked()])
@pytest_twisted.ensureDeferred  # type: ignore[untyped-decorator]
async def test_upload_arrives_unchanged(worlds: Make, framing: Length | Chunked) -> None:
    def take(incoming: Incoming) -> None:
        incoming.stream(
            Digest(lambda sink: incoming.reply(200, (), sink.digest.hexdigest().encode()))
        )

    world = worlds(take)
    client = await world.dial(world.front, secure=False)
    answered: Deferred[str] = Deferred()

    class Answer(Recorder):
        def body_done(self) -> None:
            answered.callback(self.data.decode())

    Blocks(client.send(request(framing), framing, Answer()))
    assert await answered.addTimeout(30, the_reactor()) == expected()
    assert world.outcomes == [Relayed(200, len(BLOCK) * BLOCKS, 64)] and client.idle


@pytest.mark.parametrize("reset", [True, False])
@pytest_twisted.ensureDeferred  # type: ignore[untyped-decorator]
async def test_client_gone_in_the_middle_frees_the_upstream(worlds: Make, reset: bool) -> None:
    gone: Deferred[None] = Deferred()

    def endless(incoming: Incoming) -> None:
        incoming.on_lost(lambda: gone.callback(None))
        Blocks(incoming.begin(200, (), Chunked())).left = 2**40

    world = worlds(endless)
    with socket.create_connection(("127.0.0.1", world.front)) as client:
        client.sendall(get())
        while not world.outcomes and not client_has(client):
            await pause(0.01)
        linger = b"\1\0\0\0\0\0\0\0" if reset else bytes(8)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    await gone.addTimeout(10, the_reactor())
    await pause()
    assert [type(each) for each in world.outcomes] == [Broken]


def client_has(client: socket.socket) -> bool:
    """Whether the answer has begun to arrive."""
    client.setblocking(False)
    try:
        return bool(client.recv(1000, socket.MSG_PEEK))
    except BlockingIOError:
        return False
