"""The same through TLS, two hops long, where back-pressure has its own traps."""

from typing import Any

import pytest
from twisted.internet.protocol import Protocol

from gitmoat.net.causes import Why
from gitmoat.net.http.ends import ClientConnection, Incoming, ServerConnection, Timeouts
from gitmoat.net.relay import Broken, Relayed
from gitmoat.wire.http.heads import Chunked, Length, NoBody, Piece, format_request, framing_headers
from tests.fakes.hand_loop import HandLoop, UnderTls, small_pair
from tests.fakes.http_ends import Endless, RawPeer, Recorder, get, hello, post
from tests.fakes.tls_hops import Chain, client_options, join_over_tls, server_options

pytestmark = pytest.mark.usefixtures("records")

BIG = 4_000_000
GET = format_request(b"GET", b"/", [(b"Host", b"h")])
POST = format_request(b"POST", b"/", [(b"Host", b"h"), *framing_headers(Chunked())])
# Five transports on the way, each with what Twisted calls full and one read more.
BOUND = 5 * 3 * 65536


class Gives:
    """An upstream that answers with `octets` zeros as fast as they are taken."""

    def __init__(self, octets: int, length: bool) -> None:
        self.octets = octets
        self.framing = Length(octets) if length else Chunked()
        self.sources: list[Endless] = []

    def __call__(self, incoming: Incoming) -> None:
        out = incoming.begin(200, (), self.framing)
        loop = incoming._clock
        assert isinstance(loop, HandLoop)
        self.sources.append(Endless(loop, out, self.octets))


class Takes:
    """An upstream that takes a body, or holds it while told so, and answers when it is whole."""

    def __init__(self, held: bool) -> None:
        self.held = held
        self.octets = 0
        self.requests: list[Incoming] = []

    def __call__(self, incoming: Incoming) -> None:
        self.octets = 0
        self.requests.append(incoming)
        if self.held:
            incoming.hold("slow")
        incoming.stream(self)

    def body(self, *pieces: Piece) -> None:
        self.octets += sum(map(len, pieces))

    def body_done(self) -> None:
        hello(self.requests[-1])

    def body_failed(self, why: Why) -> None:
        self.octets = -1


@pytest.mark.parametrize("length", [True, False])
def test_download_is_whole_in_constant_memory_however_slow_the_client(length: bool) -> None:
    upstream = Gives(BIG, length)
    chain = Chain(upstream)
    for turn in range(2):
        chain.client.say(get())
        source = upstream.sources[turn]
        assert source.paused and source.written < 2 * BOUND
        while chain.client.hear(300_000):
            pass
        assert source.written == BIG
    assert chain.outcomes == [Relayed(200, 0, BIG)] * 4
    assert chain.client.heard.count(b"HTTP/1.1 200 OK") == 2
    assert chain.loop.peak < BOUND


@pytest.mark.parametrize("length", [BIG, None])
def test_upload_is_whole_in_constant_memory_however_slow_the_upstream(length: int | None) -> None:
    upstream = Takes(held=True)
    chain = Chain(upstream)
    raw = bytes(BIG) if length else b"%x\r\n" % BIG + bytes(BIG) + b"\r\n0\r\n\r\n"
    for _ in range(2):
        message = post(length, raw)
        taken = chain.client.say_some(message)
        assert taken < 2 * BOUND and upstream.octets == 0
        upstream.requests[-1].release("slow")
        chain.client.say(message[taken:])
        assert chain.client.hear().endswith(b"hello\n")
        assert upstream.octets == BIG
    assert chain.outcomes == [Relayed(200, BIG, 6)] * 4
    assert chain.loop.peak < BOUND


def test_many_small_exchanges_use_the_same_connections() -> None:
    chain = Chain(hello)
    for _ in range(50):
        chain.client.say(get())
        assert chain.client.hear().endswith(b"hello\n")
    assert chain.first.idle and chain.second.idle


def test_early_answer_travels_back_while_the_upload_goes_on() -> None:
    chain = Chain(hello)
    chain.client.say(post(BIG, bytes(BIG)))
    assert chain.client.hear().endswith(b"hello\n")
    assert chain.served.lost == 0 and not chain.client.ended


@pytest.mark.parametrize("which", ["upstream_transports", "middle_transports"])
@pytest.mark.parametrize("end", [0, 1])
def test_cut_anywhere_cuts_the_client(which: str, end: int) -> None:
    upstream = Gives(BIG, length=False)
    chain = Chain(upstream)
    chain.client.say(get())
    chain.client.hear(100_000)
    getattr(chain, which)[end].abortConnection()
    chain.client.hear()
    assert chain.client.ended or chain.client.reset
    assert not chain.client.heard.endswith(b"0\r\n\r\n")
    assert isinstance(chain.outcomes[-1], Broken)
    assert not upstream.sources[0].out.alive and chain.loop.getDelayedCalls() == []


def test_client_gone_frees_the_whole_chain() -> None:
    upstream = Gives(BIG, length=True)
    chain = Chain(upstream)
    chain.client.say(get())
    chain.client.close()
    assert not upstream.sources[0].out.alive
    assert all(isinstance(each, Broken) for each in chain.outcomes) and len(chain.outcomes) == 2
    assert chain.loop.getDelayedCalls() == []


def test_stopped_client_frees_the_whole_chain_after_the_idle_time() -> None:
    upstream = Gives(BIG, length=True)
    chain = Chain(upstream)
    chain.client.say(get())
    chain.loop.advance(60)
    chain.loop.settle()
    assert not upstream.sources[0].out.alive and chain.served.lost == 1
    assert chain.loop.getDelayedCalls() == []


# One TLS connection


def ends(timeouts: Timeouts | None = None) -> tuple[HandLoop, ClientConnection, list[str]]:
    loop, notes = HandLoop(), []
    client = ClientConnection(
        loop,
        Timeouts() if timeouts is None else timeouts,
        on_ready=lambda _: notes.append("ready"),
        on_lost=lambda _, reason: notes.append(str(reason.type)),
    )
    return loop, client, notes


class Stranger(Protocol):
    """The other end of TLS, with no HTTP in it."""

    def __init__(self) -> None:
        self.heard = 0

    @property
    def tls(self) -> Any:
        return self.transport

    def dataReceived(self, data: bytes) -> None:
        self.heard += len(data)


def test_connection_is_ready_after_the_handshake_and_not_before() -> None:
    loop, client, notes = ends()
    near, far = small_pair()
    loop.connect(UnderTls(client, client_options(), True), near)
    assert not notes and not client.idle
    loop.connect(UnderTls(Stranger(), server_options(), False), far)
    loop.settle()
    assert notes == ["ready"] and client.idle


@pytest.mark.parametrize("side", ["client", "server"])
def test_handshake_must_end_in_time(side: str) -> None:
    loop, client, notes = ends()
    server = ServerConnection(loop, hello, secure=True, on_lost=lambda: notes.append("server"))
    near, far = small_pair()
    peer = RawPeer(loop, far)
    if side == "client":
        loop.connect(UnderTls(client, client_options(), True), near)
    else:
        loop.connect(UnderTls(server, server_options(), False), near)
    loop.advance(10)
    peer.hear()
    assert len(notes) == 1 and (peer.ended or peer.reset)
    assert loop.getDelayedCalls() == []


def test_plain_bytes_on_a_tls_port_end_the_connection() -> None:
    loop, lost = HandLoop(), []
    server = ServerConnection(loop, hello, secure=True, on_lost=lambda: lost.append("lost"))
    near, far = small_pair()
    loop.connect(UnderTls(server, server_options(), False), near)
    peer = RawPeer(loop, far)
    peer.say(get())
    peer.hear()
    assert b"hello" not in peer.heard and lost == ["lost"]


@pytest.mark.parametrize("orderly", [True, False])
def test_body_until_close_is_whole_only_with_close_notify(orderly: bool) -> None:
    loop, client, _ = ends()
    server = Stranger()
    _, below = join_over_tls(loop, client, server)
    sink = Recorder()
    client.send(GET, NoBody(), sink)
    loop.settle()
    server.tls.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
    loop.settle()
    if orderly:
        server.tls.loseConnection()
    else:
        below.detach().close()
    loop.settle()
    assert sink.data == b"hello" and len(sink.ends) == 1
    assert (sink.ends == ["done"]) is orderly


def test_peers_close_while_we_are_paused_is_noticed_and_not_written_into() -> None:
    """The peer says its end while what we wrote still waits."""
    loop, client, notes = ends()
    server = Stranger()
    below, _ = join_over_tls(loop, client, server)
    server.tls.hold("us")
    sink = Recorder()
    source = Endless(loop, client.send(POST, Chunked(), sink))
    loop.settle()
    assert source.paused
    server.tls.loseConnection()
    loop.settle()
    stuck = source.written
    server.tls.release("us")
    loop.settle()
    assert len(sink.ends) == 1 and len(notes) == 2
    assert source.written - stuck < 300_000
    assert below.getHandle() is None and loop.getDelayedCalls() == []


def test_last_answer_closes_both_ends_in_order() -> None:
    loop, client, notes = ends()
    lost: list[str] = []
    server = ServerConnection(
        loop,
        lambda incoming: incoming.reply(200, (), bytes(200_000), close=True),
        secure=True,
        on_lost=lambda: lost.append("lost"),
    )
    join_over_tls(loop, client, server)
    sink = Recorder()
    client.send(GET, NoBody(), sink)
    loop.settle()
    assert len(sink.data) == 200_000 and sink.ends == ["done"]
    assert lost == ["lost"] and len(notes) == 2 and loop.getDelayedCalls() == []


def test_refused_upload_is_answered_and_closed_in_order() -> None:
    """The client must be able to read the answer although it had not sent everything."""
    loop, client, _ = ends()

    def refuse(incoming: Incoming) -> None:
        incoming.discard(100_000)
        hello(incoming)

    server = ServerConnection(loop, refuse, secure=True)
    join_over_tls(loop, client, server)
    sink = Recorder()
    source = Endless(loop, client.send(POST, Chunked(), sink))
    loop.settle()
    assert (sink.data, sink.ends) == (b"hello\n", ["done"])
    assert source.written < 2_000_000 and loop.getDelayedCalls() == []
