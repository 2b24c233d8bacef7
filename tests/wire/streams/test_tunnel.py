"""A CONNECT becomes two ends that are joined, or nothing at all goes on."""

from __future__ import annotations

import pytest

from gitwire.errors import Malformed
from gitwire.formatting import format_response
from gitwire.hostname import Destination, HostName
from gitwire.http import NoBody
from gitwire.proxying import ProxyReader, format_connect
from streams.causes import Cause, Why
from streams.incoming import Incoming
from streams.raw import Raw
from streams.tunnel import LINGER, OPENING, Ended, Opening, Tunnel
from tests.fakes.hand_loop import HandLoop, small_pair, tcp_pair
from tests.fakes.http_ends import Dialled, Recorder, Served, get, hello

TO = Destination(HostName("web.example"), 443)
ASK = format_connect(TO, ())
YES = format_response(200, (), b"Connection established")
MEGABYTES = 3_000_000


class Hop:
    """A server end whose CONNECT is passed on to a client end, as sidecar and broker do."""

    def __init__(
        self, opening: Opening | None = None, tcp: bool = False, most: int = 1 << 40
    ) -> None:
        self.loop = HandLoop()
        pair = tcp_pair if tcp else small_pair
        self.served = Served(self._asked, pair, None, self.loop, ProxyReader)
        self.dialled = Dialled(pair, None, self.loop)
        self.client, self.upstream = self.served.client, self.dialled.server
        self.opening, self.left = opening, most
        self.ended: list[Ended] = []
        self.refusals = Recorder()
        self.tunnel: Tunnel | None = None

    def _asked(self, incoming: Incoming) -> None:
        def opened(far: Raw) -> None:
            near = incoming.tunnel(YES)
            self.tunnel = Tunnel(
                self.loop, near, far, 60, self.ended.append, self.opening, self._spend
            )
            self.tunnel.start()

        self.dialled.connection.connect(ASK, self.refusals, opened)

    def _spend(self, octets: int) -> str | None:
        self.left -= octets
        return "E109" if self.left < 0 else None

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


def test_a_peer_that_never_closes_is_not_waited_for() -> None:
    hop = Hop(tcp=True)
    hop.open()
    hop.client.half_close()
    hop.upstream.hear()
    assert hop.upstream.ended and not hop.ended
    hop.loop.advance(LINGER + 1)
    hop.loop.settle()
    assert len(hop.ended) == 1


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
    hop = Hop(most=10)
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
