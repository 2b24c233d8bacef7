"""A CONNECT becomes two ends that are joined, or nothing at all goes on."""

from __future__ import annotations

import pytest
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from gitmoat.limits.quota import ByteQuota
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.incoming import Incoming
from gitmoat.net.stages import Pieces, Quota, Stage, Stages
from gitmoat.net.tunnel_end import TunnelConnection, TunnelEnd
from gitmoat.net.tunnel_relay import LINGER, OPENING, Ended, Opening, Tunnel
from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.formatting import format_response
from gitmoat.wire.http.heads import NoBody
from gitmoat.wire.http.proxying import ProxyReader, format_connect
from gitmoat.wire.malformed import Malformed
from tests.fakes.hand_loop import HandLoop, small_pair, tcp_pair
from tests.fakes.http_ends import Dialled, RawPeer, Recorder, Served, get, hello

TO = Destination(HostName("web.example"), 443)
ASK = format_connect(TO, ())
YES = format_response(200, (), b"Connection established")
MEGABYTES = 3_000_000


class Hop:
    """A server end whose CONNECT is passed on to a client end, as sidecar and broker do."""

    def __init__(
        self, opening: Opening | None = None, tcp: bool = False, up: Stages = (), down: Stages = ()
    ) -> None:
        self.loop = HandLoop()
        pair = tcp_pair if tcp else small_pair
        self.served = Served(self._asked, pair, None, self.loop, ProxyReader)
        self.dialled = Dialled(pair, None, self.loop)
        self.client, self.upstream = self.served.client, self.dialled.server
        self.opening, self.stages = opening, {"up": up, "down": down}
        self.ended: list[Ended] = []
        self.failures: list[Failure] = []
        self.refusals = Recorder()
        self.tunnel: Tunnel | None = None

    def _asked(self, incoming: Incoming) -> None:
        def opened(far: TunnelEnd) -> None:
            near = incoming.tunnel(YES)
            self.tunnel = Tunnel(self.loop, near, far, 60, self.opening, **self.stages)
            self.done = self.tunnel.start()
            self.done.addCallbacks(self.ended.append, self.failures.append)

        self.dialled.connection.connect(ASK, self.refusals, opened)

    def open(self) -> None:
        self.client.say(ASK)
        assert self.upstream.hear() == ASK
        self.upstream.say(YES)
        assert self.client.hear() == YES


def test_octets_go_both_ways_as_they_come() -> None:
    hop = Hop()
    hop.open()
    hop.client.say(b"up")
    assert hop.upstream.hear() == b"up"
    hop.upstream.say(b"down")
    assert hop.client.hear() == b"down"
    assert not hop.dialled.connection.idle and not hop.ended


def test_what_comes_with_the_heads_is_not_lost() -> None:
    hop = Hop()
    hop.client.say(ASK + b"early")
    hop.upstream.hear()
    hop.upstream.say(YES + b"quick")
    assert hop.client.hear() == YES + b"quick"
    assert hop.upstream.hear() == b"early"


@pytest.mark.parametrize("downward", [False, True])
def test_a_peer_that_does_not_read_holds_the_other_in_little_memory(downward: bool) -> None:
    hop = Hop()
    hop.open()
    source, sink = (hop.upstream, hop.client) if downward else (hop.client, hop.upstream)
    source.sock.setblocking(False)
    sent = heard = 0
    while sent < MEGABYTES:
        try:
            sent += source.sock.send(bytes(65536))
        except BlockingIOError:
            heard += len(sink.hear(65536))
        hop.loop.settle()
    while heard < sent:
        got = sink.hear()
        assert got
        heard += len(got)
    assert hop.loop.peak < 600_000


@pytest.mark.parametrize("downward", [False, True])
def test_the_end_of_one_peer_is_the_end_of_the_other_after_its_last_octet(downward: bool) -> None:
    hop = Hop(tcp=True)
    hop.open()
    first, other = (hop.upstream, hop.client) if downward else (hop.client, hop.upstream)
    first.say(b"last words")
    first.close()
    assert other.hear() == b"last words"
    other.hear()
    assert other.ended
    other.close()
    assert hop.ended == [Ended(*(0, 10) if downward else (10, 0))]
    assert (hop.served.lost, hop.dialled.lost) == (1, 1)


def test_a_reset_is_a_reset_on_the_other_side() -> None:
    hop = Hop(tcp=True)
    hop.open()
    hop.upstream.reset_now()
    hop.client.hear()
    assert hop.client.reset
    assert len(hop.ended) == 1


def test_a_client_that_never_closes_is_not_waited_for() -> None:
    hop = Hop(tcp=True)
    hop.open()
    hop.upstream.half_close()
    hop.client.hear()
    assert hop.client.ended and not hop.ended
    hop.loop.advance(LINGER + 1)
    hop.loop.settle()
    assert len(hop.ended) == 1


def test_nothing_is_waited_for_once_an_upstream_has_what_its_client_said() -> None:
    hop = Hop(tcp=True)
    hop.open()
    hop.client.say(b"last words")
    hop.client.half_close()
    assert hop.upstream.hear() == b"last words"
    hop.upstream.hear()
    assert hop.upstream.ended and hop.ended == [Ended(10, 0)]
    assert (hop.served.lost, hop.dialled.lost) == (1, 1)
    assert hop.loop.getDelayedCalls() == []


def test_what_a_client_said_before_its_end_is_waited_for() -> None:
    hop = Hop()
    hop.open()
    sent = hop.client.say_some(bytes(MEGABYTES))
    hop.client.half_close()
    assert not hop.ended
    assert len(hop.upstream.hear()) == sent and hop.upstream.ended
    assert hop.ended == [Ended(sent, 0)]


def test_silence_ends_it_and_any_octet_is_none() -> None:
    hop = Hop()
    hop.open()
    for _ in range(3):
        hop.loop.advance(59)
        hop.upstream.say(b"x")
    assert not hop.ended
    hop.loop.advance(61)
    assert hop.ended == [Ended(0, 3, Why(Cause.IDLE))]


def only(expected: bytes) -> Opening:
    seen = bytearray()

    def opening(octets: bytes) -> bytes | None:
        seen.extend(octets)
        if not expected.startswith(bytes(seen[: len(expected)])):
            raise Malformed("not the right words")
        return bytes(seen) if len(seen) >= len(expected) else None

    return opening


def test_nothing_of_a_wrong_opening_reaches_the_upstream() -> None:
    hop = Hop(only(b"open sesame"))
    hop.open()
    hop.client.say(b"open ")
    assert hop.upstream.hear() == b""
    hop.client.say(b"barley")
    assert hop.upstream.hear() == b""
    assert hop.upstream.ended or hop.upstream.reset
    assert hop.ended == [Ended(0, 0, Why(Cause.NOT_OPENED, "not the right words"))]


def test_a_right_opening_goes_on_whole_with_what_follows() -> None:
    hop = Hop(only(b"open sesame"))
    hop.open()
    for octet in b"open sesame!":
        hop.client.say(bytes([octet]))
    assert hop.upstream.hear() == b"open sesame!"


def test_an_opening_that_does_not_come_is_not_waited_for() -> None:
    hop = Hop(only(b"open sesame"))
    hop.open()
    hop.upstream.say(b"a server that speaks first keeps nobody waiting")
    hop.loop.advance(OPENING + 1)
    assert hop.ended[0].why == Why(Cause.NOT_OPENED)


def test_too_many_octets_end_it() -> None:
    stages = (Quota(ByteQuota(10), Why(Cause.QUOTA, code="E109")),)
    hop = Hop(up=stages, down=stages)
    hop.open()
    hop.client.say(b"12345")
    hop.upstream.say(b"12345")
    assert not hop.ended
    hop.client.say(b"1")
    assert hop.ended == [Ended(5, 5, Why(Cause.QUOTA, code="E109"))]
    assert hop.upstream.hear() == b"12345"


def test_it_can_be_cut_from_outside() -> None:
    hop = Hop()
    hop.open()
    assert hop.tunnel is not None
    hop.tunnel.cut(Why(Cause.STOPPED, code="E101"))
    hop.client.hear()
    hop.upstream.hear()
    assert hop.ended == [Ended(0, 0, Why(Cause.STOPPED, code="E101"))]
    assert (hop.served.lost, hop.dialled.lost) == (1, 1)


def test_one_that_was_cut_before_it_starts_passes_nothing_on() -> None:
    loop = HandLoop()
    ends = [TunnelConnection(), TunnelConnection()]
    pairs = [tcp_pair(), tcp_pair()]
    peers = [RawPeer(loop, far) for _, far in pairs]
    for end, (near, _) in zip(ends, pairs, strict=True):
        loop.connect(end, near)
    tunnel = Tunnel(loop, ends[0].end, ends[1].end, 60)
    tunnel.cut(Why(Cause.STOPPED))
    ended: list[Ended] = []
    tunnel.start(b"early").addCallback(ended.append)
    assert [peer.hear() for peer in peers] == [b"", b""]
    assert all(peer.reset for peer in peers)
    assert ended == [Ended(0, 0, Why(Cause.STOPPED))]
    assert loop.getDelayedCalls() == []


@pytest.mark.parametrize("when", ["opening", "joined", "held", "finishing"])
def test_one_who_awaits_its_end_and_is_cancelled_leaves_nothing_open(when: str) -> None:
    hop = Hop(only(b"open") if when == "opening" else None, tcp=True)
    hop.open()
    hop.client.say(b"op")
    hop.upstream.hear()
    if when == "held":
        hop.upstream.say_some(bytes(MEGABYTES * 4))
    elif when == "finishing":
        hop.upstream.half_close()
        hop.client.hear()
    assert hop.ended == []
    hop.done.cancel()
    while hop.client.hear():
        pass
    hop.upstream.hear()
    assert (hop.served.lost, hop.dialled.lost) == (1, 1)
    assert hop.ended == [] and hop.failures[0].check(CancelledError)
    assert hop.loop.getDelayedCalls() == []


def test_to_cancel_one_that_has_ended_changes_nothing() -> None:
    hop = Hop(tcp=True)
    hop.open()
    hop.upstream.reset_now()
    hop.done.cancel()
    assert len(hop.ended) == 1 and hop.failures == []


class Late(Stage):
    """Passes everything on at the end."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, pieces: Pieces) -> Pieces:
        self.held += b"".join(pieces)
        return ()

    def finish(self) -> Pieces:
        return (self.held,)


@pytest.mark.parametrize("downward", [False, True])
def test_what_a_stage_held_back_goes_on_before_the_end(downward: bool) -> None:
    hop = Hop(tcp=True, up=(Late(),), down=(Late(),))
    hop.open()
    first, other = (hop.upstream, hop.client) if downward else (hop.client, hop.upstream)
    first.say(b"words")
    assert other.hear() == b""
    first.half_close()
    assert other.hear() == b"words"
    other.hear()
    assert other.ended


def test_a_refused_connect_is_an_answer_and_the_link_serves_on() -> None:
    hop = Hop()
    hop.client.say(ASK)
    hop.upstream.hear()
    hop.upstream.say(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
    assert hop.refusals.head is not None
    assert (hop.refusals.head.status, hop.refusals.data) == (403, b"no")
    assert hop.dialled.connection.idle
    answered = Recorder()
    hop.dialled.connection.send(get(), NoBody(), answered)
    hop.upstream.hear()
    hop.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert answered.data == b"ok", "a 200 to anything but a CONNECT is no tunnel"


def test_a_refused_client_may_ask_again_on_its_connection() -> None:
    served = Served(hello, reader=ProxyReader)
    served.client.say(ASK)
    assert served.client.hear().startswith(b"HTTP/1.1 200 OK")
    served.client.say(get())
    assert served.client.hear().startswith(b"HTTP/1.1 200 OK")
