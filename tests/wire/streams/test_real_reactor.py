"""The same on Twisted's own reactor: epoll reports ends and resets in its own way."""

import hashlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.protocols.tls import TLSMemoryBIOFactory

from gitwire.http import Chunked, Framing, Length, NoBody, Piece, format_request, framing_headers
from streams.causes import Why
from streams.http import ClientConnection, Incoming, ServerConnection
from streams.relay import Broken, Outcome, Relay, Relayed
from tests.fakes.http_ends import Recorder, get
from tests.fakes.tls_hops import client_options, same, server_options

BLOCK = bytes(range(256)) * 256
BLOCKS = 256


def the_reactor() -> Any:
    from twisted.internet import reactor

    return reactor


class World:
    """A plain port whose requests are relayed over TLS to an upstream."""

    def __init__(self, on_upstream: Callable[[Incoming], None]) -> None:
        self.outcomes: list[Outcome] = []
        self._connections: list[Any] = []
        upstream = self._factory(lambda: ServerConnection(the_reactor(), on_upstream, secure=True))
        tls = TLSMemoryBIOFactory(server_options(), False, upstream)
        self.upstream: Any = the_reactor().listenTCP(0, tls, interface="127.0.0.1")
        front = self._factory(lambda: ServerConnection(the_reactor(), self._relay))
        self.front: Any = the_reactor().listenTCP(0, front, interface="127.0.0.1")

    async def dial(self, port: Any, secure: bool) -> ClientConnection:
        ready: Deferred[ClientConnection] = Deferred()
        made = ClientConnection(the_reactor(), secure=secure, on_ready=ready.callback)
        endpoint: Any = HostnameEndpoint(the_reactor(), "127.0.0.1", port.getHost().port)
        if secure:
            endpoint = wrapClientTLS(client_options(), endpoint)
        await endpoint.connect(self._factory(lambda: made))
        return await ready

    async def close(self) -> None:
        for each in self._connections:
            each.abort()
        await self.front.stopListening()
        await self.upstream.stopListening()
        await pause()

    def _factory(self, make: Callable[[], Any]) -> Any:
        def build() -> Any:
            self._connections.append(make())
            return self._connections[-1]

        factory: Any = Factory.forProtocol(build)
        factory.noisy = False
        return factory

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
        while not self.paused and self.out.alive:
            if not self.left:
                self.out.finish()
                return
            self.left -= 1
            self.out.write(BLOCK)


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
def worlds() -> Iterator[Callable[[Callable[[Incoming], None]], World]]:
    made: list[World] = []

    def make(on_upstream: Callable[[Incoming], None]) -> World:
        made.append(World(on_upstream))
        return made[-1]

    yield make
    for each in made:
        pytest_twisted.blockon(Deferred.fromCoroutine(each.close()))


Make = Callable[[Callable[[Incoming], None]], World]


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
    with socket.create_connection(("127.0.0.1", world.front.getHost().port)) as client:
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
