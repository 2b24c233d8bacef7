"""What goes in at one end comes out at the other, or both ends are cut."""

import socket
from collections.abc import Callable

import pytest
from twisted.internet.defer import CancelledError

from gitmoat.limits.quota import ByteQuota
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.ends import Timeouts
from gitmoat.net.relay import Broken, Outcome, Refuse, Relay, Relayed, Side, Unanswered
from gitmoat.net.stages import Pieces, Quota, Size, Stage, Stop
from gitmoat.wire.http.heads import Headers, Length, ResponseHead
from gitmoat.wire.malformed import Malformed
from tests.fakes.hand_loop import tcp_pair
from tests.fakes.http_ends import get, hello, post
from tests.fakes.joined import Joined, pass_on

OK = b"HTTP/1.1 200 OK\r\nServer: secret\r\nSet-Cookie: secret\r\n"
FIXED = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-test\r\n"
UP_GET = b"GET /up HTTP/1.1\r\nHost: up\r\n\r\n"
MEGABYTES = 5_000_000


def answer(joined: Joined, body: bytes = b"hello") -> None:
    joined.upstream.say(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def test_answer_has_a_head_of_our_own_and_the_upstreams_body() -> None:
    joined = Joined()
    joined.client.say(get(more=b"Authorization: Basic eA==\r\n"))
    assert joined.upstream.hear() == UP_GET
    answer(joined)
    assert joined.client.hear() == FIXED + b"Content-Length: 5\r\n\r\nhello"
    assert joined.outcome == Relayed(200, 0, 5)


def test_both_connections_serve_the_next_request() -> None:
    joined = Joined()
    for _ in range(3):
        joined.client.say(get())
        assert joined.upstream.hear() == UP_GET
        answer(joined)
        assert joined.client.hear().endswith(b"hello")
    assert joined.dialled.connection.idle and joined.served.lost == 0


@pytest.mark.parametrize("prelude", [b"", b"PRE"])
@pytest.mark.parametrize("length", [5, None])
def test_request_body_goes_up_as_it_came(length: int | None, prelude: bytes) -> None:
    joined = Joined(prelude=prelude)
    joined.client.say(post(length, b"hel" if length else b"3\r\nhel\r\n"))
    joined.upstream.hear()
    joined.client.say(b"lo" if length else b"2\r\nlo\r\n0\r\n\r\n")
    joined.upstream.hear()
    head, _, body = joined.upstream.heard.partition(b"\r\n\r\n")
    if length:
        assert b"Content-Length: %d" % (5 + len(prelude)) in head
        assert body == prelude + b"hello"
    else:
        assert (body == b"6\r\nPREhel\r\n2\r\nlo\r\n0\r\n\r\n") or body == (
            (b"3\r\nPRE\r\n" if prelude else b"") + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
        )
    answer(joined)
    assert joined.outcome == Relayed(200, 5 + len(prelude), 5)


def test_chunked_answer_stays_chunked() -> None:
    joined = Joined()
    joined.client.say(get())
    joined.upstream.say(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    assert joined.client.hear().endswith(b"chunked\r\n\r\n5\r\nhello\r\n")
    joined.upstream.say(b"0\r\n\r\n")
    assert joined.client.hear() == b"0\r\n\r\n"
    assert joined.outcome == Relayed(200, 0, 5)


def test_what_comes_with_the_end_of_an_answer_leaves_with_it() -> None:
    def packets() -> tuple[socket.socket, socket.socket]:
        """Each write is one of them."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    joined = Joined(packets)
    for pieces in (b"5\r\nhello\r\n", b"2\r\nhe\r\n3\r\nllo\r\n"):
        joined.client.say(get())
        joined.upstream.say(CHUNKED + pieces + b"0\r\n\r\n")
        written = joined.client.sock.recv(65536)
        assert written.endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert joined.outcome == Relayed(200, 0, 5) and joined.dialled.connection.idle
    joined.client.close()
    joined.upstream.close()


def test_answer_that_ends_by_closing_gets_an_end_of_its_own() -> None:
    joined = Joined(tcp_pair)
    joined.client.say(get())
    assert joined.upstream.hear() == UP_GET
    joined.upstream.say(OK + b"\r\nhello")
    joined.upstream.close()
    assert joined.client.hear().endswith(b"chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert joined.outcome == Relayed(200, 0, 5)
    assert joined.served.lost == 0 and not joined.dialled.connection.idle


def test_answer_that_was_to_end_by_closing_but_was_cut_is_cut() -> None:
    joined = Joined(tcp_pair)
    joined.client.say(get())
    joined.upstream.say(OK + b"\r\nhello")
    joined.client.hear()
    joined.upstream.reset_now()
    joined.client.hear()
    assert joined.client.reset and not joined.client.heard.endswith(b"0\r\n\r\n")
    assert isinstance(joined.outcome, Broken) and joined.outcome.side is Side.UPSTREAM


def test_both_bodies_may_flow_at_once() -> None:
    joined = Joined()
    joined.client.say(post(None, b"1\r\na\r\n"))
    joined.upstream.say(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nA\r\n")
    joined.client.say(b"1\r\nb\r\n")
    joined.upstream.say(b"1\r\nB\r\n")
    joined.client.say(b"0\r\n\r\n")
    joined.upstream.say(b"0\r\n\r\n")
    assert joined.upstream.hear().endswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
    assert joined.client.hear().endswith(b"1\r\nA\r\n1\r\nB\r\n0\r\n\r\n")
    assert joined.outcome == Relayed(200, 2, 2) and joined.dialled.connection.idle


def test_body_is_asked_for_only_when_the_upstream_is_there() -> None:
    joined = Joined()
    joined.client.say(post(5, more=b"Expect: 100-continue\r\n"))
    assert joined.client.hear() == b"HTTP/1.1 100 Continue\r\n\r\n"
    joined.client.say(b"hello")
    assert joined.upstream.hear().endswith(b"\r\n\r\nhello")
    assert b"Expect" not in joined.upstream.heard


# Early answers


def test_early_answer_reaches_the_client_and_the_rest_is_dropped() -> None:
    joined = Joined(tcp_pair)
    joined.client.say(post(500_000, bytes(1000)))
    joined.upstream.hear()
    answer(joined)
    assert joined.client.hear().endswith(b"hello")
    assert joined.outcome == Relayed(200, 1000, 5)
    joined.client.say(bytes(499_000))
    joined.served.on_request = hello
    joined.client.say(get())
    assert joined.client.hear().endswith(b"hello\n")


def test_early_answer_while_the_upload_is_stuck_frees_the_client() -> None:
    joined = Joined()
    taken = joined.client.say_some(post(MEGABYTES, bytes(MEGABYTES)))
    assert taken < 1_000_000
    answer(joined)
    assert joined.client.hear().endswith(b"hello")
    joined.client.say(bytes(MEGABYTES + len(post(MEGABYTES)) - taken))
    joined.served.on_request = hello
    joined.client.say(get())
    assert joined.client.hear().endswith(b"hello\n")


def test_rest_of_an_early_answered_request_is_dropped_up_to_a_limit() -> None:
    joined = Joined(discard_limit=100_000)
    joined.client.say(post(MEGABYTES, bytes(1000)))
    joined.upstream.hear()
    answer(joined)
    joined.client.say(bytes(200_000))
    assert joined.client.hear().endswith(b"hello") and joined.client.ended


# Back-pressure: bytes are counted, not seconds


def test_slow_client_stops_the_upstream_within_a_bound() -> None:
    joined = Joined()
    joined.client.say(get())
    head = OK + b"Content-Length: %d\r\n\r\n" % MEGABYTES
    taken = joined.upstream.say_some(head + bytes(MEGABYTES))
    assert taken < 500_000 and joined.loop.peak < 2 * 65536
    while joined.client.hear(1_000_000):
        taken += joined.upstream.say_some(bytes(MEGABYTES + len(head) - taken))
    assert joined.outcome == Relayed(200, 0, MEGABYTES)
    assert joined.loop.peak < 2 * 65536


@pytest.mark.parametrize("length", [MEGABYTES, None])
def test_stalled_upstream_stops_the_client_within_a_bound(length: int | None) -> None:
    joined = Joined()
    raw = bytes(MEGABYTES) if length else b"%x\r\n" % MEGABYTES + bytes(MEGABYTES) + b"\r\n"
    message = post(length, raw) + (b"" if length else b"0\r\n\r\n")
    taken = joined.client.say_some(message)
    assert taken < 500_000 and joined.loop.peak < 2 * 65536 + 100
    while joined.upstream.hear(1_000_000):
        taken += joined.client.say_some(message[taken:])
    assert taken == len(message)
    answer(joined)
    assert joined.outcome == Relayed(200, MEGABYTES, 5)
    assert joined.loop.peak < 2 * 65536 + 100


def test_connections_that_were_paused_serve_the_next_request() -> None:
    joined = Joined()
    for _ in range(3):
        message = post(400_000, bytes(400_000))
        taken = joined.client.say_some(message)
        assert taken < len(message)
        joined.client.pour(message[taken:], joined.upstream)
        body = OK + b"Content-Length: 600000\r\n\r\n" + bytes(600_000)
        taken = joined.upstream.say_some(body)
        assert taken < len(body)
        joined.upstream.pour(body[taken:], joined.client)
        assert joined.outcome == Relayed(200, 400_000, 600_000)


def test_two_directions_do_not_release_each_other() -> None:
    """Both bodies are stuck; reading one must move only that one."""
    joined = Joined()
    joined.client.say_some(post(MEGABYTES, bytes(2_000_000)))
    joined.upstream.say_some(OK + b"Content-Length: %d\r\n\r\n" % MEGABYTES + bytes(2_000_000))
    before = joined.relays[0].bytes_up
    joined.client.hear(400_000)
    assert joined.relays[0].bytes_up == before
    before_down = joined.relays[0].bytes_down
    joined.upstream.hear(400_000)
    assert joined.relays[0].bytes_up > before
    assert joined.relays[0].bytes_down == before_down
    assert joined.loop.peak < 4 * 65536 + 1000


# Refusals and limits


def test_refused_answer_is_not_passed_on_and_the_owner_replies() -> None:
    joined = Joined(tcp_pair)
    joined.client.say(get())
    joined.upstream.say(b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n")
    why = Why(Cause.REFUSED, "upstream said 302")
    assert joined.outcome == Unanswered(why, Refuse(detail="upstream said 302"), 0)
    assert joined.client.hear() == b"" and not joined.dialled.connection.idle
    hello(joined.served.last)
    assert joined.client.hear().endswith(b"hello\n")


def test_answer_whose_headers_are_malformed_is_refused() -> None:
    def strict(head: ResponseHead) -> tuple[int, Headers] | Refuse:
        raise Malformed("header is repeated")

    joined = Joined(answer=strict)
    joined.client.say(get())
    answer(joined)
    why = Why(Cause.REFUSED, "header is repeated")
    assert joined.outcome == Unanswered(why, Refuse(detail="header is repeated"), 0)


def test_request_over_its_limit_is_stopped_and_can_be_refused() -> None:
    joined = Joined(tcp_pair, up=(Size(100_000, Cause.REQUEST_TOO_LARGE),))
    joined.client.say(post(200_000, bytes(150_000)))
    assert isinstance(joined.outcome, Unanswered) and joined.outcome.refused is None
    joined.upstream.hear()
    assert joined.upstream.reset
    hello(joined.served.last)
    joined.client.say(bytes(50_000))
    assert joined.client.hear().endswith(b"hello\n") and joined.served.lost == 0


def test_answer_over_its_limit_is_cut_for_both() -> None:
    joined = Joined(tcp_pair, down=(Size(100_000, Cause.ANSWER_TOO_LARGE),))
    joined.client.say(get())
    joined.upstream.say(OK + b"Transfer-Encoding: chunked\r\n\r\n186a1\r\n" + bytes(100_001))
    joined.client.hear()
    joined.upstream.hear()
    assert joined.client.reset and joined.upstream.reset
    assert isinstance(joined.outcome, Broken) and joined.outcome.side is Side.US


def test_relay_can_be_cut_from_outside() -> None:
    joined = Joined(tcp_pair)
    joined.client.say(post(10, b"abc"))
    joined.relays[0].cut(Why(Cause.STOPPED, "session was revoked"))
    joined.relays[0].cut(Why(Cause.STOPPED, "again"))
    joined.client.hear()
    joined.upstream.hear()
    assert joined.client.reset and joined.upstream.reset
    assert joined.outcome == Broken(Side.US, Why(Cause.STOPPED, "session was revoked"), 3, 0)


def test_what_is_cut_before_it_starts_sends_nothing() -> None:
    joined = Joined(tcp_pair)
    joined.served.on_request = None
    joined.client.say(post(10, b"abc"))
    head = b"POST /up HTTP/1.1\r\nHost: up\r\nContent-Length: 10\r\n\r\n"
    relay = Relay(joined.served.last, joined.dialled.connection, head, Length(10), pass_on)
    why = Why(Cause.STOPPED)
    relay.cut(why)
    outcomes: list[Outcome] = []
    relay.start().addCallback(outcomes.append)
    assert joined.upstream.hear() == b"" and joined.client.hear() == b""
    assert joined.client.reset and joined.upstream.reset
    assert outcomes == [Broken(Side.US, why, 0, 0)]


def test_to_cancel_what_has_ended_closes_nothing() -> None:
    joined = Joined()
    joined.client.say(get())
    joined.upstream.hear()
    answer(joined)
    joined.done.cancel()
    joined.relays[0].cut(Why(Cause.STOPPED))
    joined.relays[0].end(Why(Cause.STOPPED))
    assert joined.outcomes == [Relayed(200, 0, 5)] and joined.failures == []
    assert joined.dialled.connection.idle and joined.client.hear().endswith(b"hello")
    joined.client.say(get())
    joined.upstream.hear()
    answer(joined)
    assert joined.outcomes[1:] == [Relayed(200, 0, 5)]


def test_what_is_ended_before_an_answer_can_be_replied_to() -> None:
    joined = Joined(tcp_pair)
    joined.client.say(get())
    joined.relays[0].end(Why(Cause.SLOW))
    joined.upstream.hear()
    assert joined.upstream.reset
    assert joined.outcome == Unanswered(Why(Cause.SLOW), None, 0)
    hello(joined.served.last)
    assert joined.client.hear().endswith(b"hello\n")


# Stages


class Shouting(Stage):
    """Keeps the last byte back, in capitals; `said` is what it ends an answer with."""

    def __init__(self, said: bytes | None = None) -> None:
        self.held = b""
        self.said = said

    def feed(self, pieces: Pieces) -> Pieces:
        data = self.held + b"".join(pieces).upper()
        self.held = data[-1:]
        return (data[:-1],)

    def finish(self) -> Pieces:
        return (self.held + b"!",)

    def last_words(self, why: Why) -> bytes | None:
        return self.said


class Curt(Stage):
    """Passes so many bytes on and stops there, in the middle of a piece."""

    def __init__(self, most: int) -> None:
        self.most = most

    def feed(self, pieces: Pieces) -> Pieces | Stop:
        data = b"".join(pieces)
        if len(data) > self.most:
            return Stop(Why(Cause.QUOTA), (data[: self.most],))
        return (data,)


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def test_stages_change_what_goes_up_and_what_comes_down() -> None:
    joined = Joined(up=(Shouting(),), down=(Shouting(), Size(100, Cause.QUOTA)))
    joined.client.say(post(None, b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"))
    assert joined.upstream.hear().endswith(b"4\r\nHELL\r\n2\r\nO!\r\n0\r\n\r\n")
    joined.upstream.say(CHUNKED + b"3\r\nyes\r\n0\r\n\r\n")
    assert joined.client.hear().endswith(b"4\r\nYES!\r\n0\r\n\r\n")
    assert joined.outcome == Relayed(200, 6, 4) and joined.dialled.connection.idle


def test_a_stage_may_end_an_answer_after_some_of_a_piece() -> None:
    joined = Joined(tcp_pair, down=(Curt(3),))
    joined.client.say(get())
    joined.upstream.say(CHUNKED + b"5\r\nhello\r\n")
    assert joined.client.hear().endswith(b"3\r\nhel\r\n") and joined.client.reset
    assert joined.outcome == Broken(Side.US, Why(Cause.QUOTA), 0, 3)


def test_what_a_stage_says_at_the_end_of_an_answer_passes_the_stages_behind_it() -> None:
    joined = Joined(tcp_pair, down=(Shouting(b"sorry"), Shouting()))
    joined.client.say(get())
    joined.upstream.say(CHUNKED + b"5\r\nhello\r\n")
    joined.relays[0].cut(Why(Cause.STOPPED))
    heard = joined.client.hear()
    assert heard.endswith(b"3\r\nHEL\r\n7\r\nLSORRY!\r\n0\r\n\r\n")
    joined.upstream.hear()
    assert joined.upstream.reset and joined.served.lost == 0
    assert joined.outcome == Relayed(200, 0, 3, Why(Cause.STOPPED))


@pytest.mark.parametrize("why", [Cause.QUOTA, None])
def test_an_answer_of_an_announced_length_is_ended_by_no_words(why: Cause | None) -> None:
    joined = Joined(tcp_pair, down=(Shouting(b"sorry"),))
    joined.client.say(get())
    joined.upstream.say(OK + b"Content-Length: 9\r\n\r\nhello")
    if why is None:
        joined.upstream.reset_now()
    else:
        joined.relays[0].end(Why(why))
    assert joined.client.hear().endswith(b"HELL") and joined.client.reset
    assert isinstance(joined.outcome, Broken)


def test_a_lost_upstream_is_told_in_the_words_of_a_stage() -> None:
    joined = Joined(tcp_pair, down=(Shouting(b"sorry"),))
    joined.client.say(get())
    joined.upstream.say(CHUNKED + b"5\r\nhello\r\n")
    joined.upstream.reset_now()
    assert joined.client.hear().endswith(b"5\r\nsorry\r\n0\r\n\r\n")
    assert joined.outcome == Relayed(200, 0, 4, Why(Cause.LOST))


def test_both_directions_and_all_transfers_spend_one_budget() -> None:
    budget = ByteQuota(18)
    stages = (Quota(budget, Why(Cause.QUOTA, code="E109")),)
    joined = Joined(tcp_pair, up=stages, down=stages)
    for _ in range(2):
        joined.client.say(post(3, b"abc"))
        joined.upstream.hear()
        answer(joined)
        assert joined.outcome == Relayed(200, 3, 5)
    joined.client.say(post(3, b"abc"))
    joined.upstream.hear()
    assert joined.outcome == Unanswered(Why(Cause.QUOTA, code="E109"), None, 0)


# One end lost at every step

STEPS: dict[str, list[tuple[str, bytes]]] = {
    "nothing sent yet": [("client", get())],
    "inside the request body": [("client", post(10, b"abc"))],
    "inside a request chunk": [("client", post(None, b"a\r\nabc"))],
    "request whole": [("client", post(3, b"abc"))],
    "inside the answer's head": [("client", get()), ("upstream", OK)],
    "early answer under way": [
        ("client", post(10, b"abc")),
        ("upstream", OK + b"Content-Length: 9\r\n\r\nabc"),
    ],
    "answer's head": [("client", get()), ("upstream", OK + b"Content-Length: 9\r\n\r\n")],
    "inside the answer": [("client", get()), ("upstream", OK + b"Content-Length: 9\r\n\r\nabc")],
    "inside an answer's chunk": [
        ("client", get()),
        ("upstream", OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc"),
    ],
    "between chunks": [
        ("client", get()),
        ("upstream", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    ],
    "before the last line": [
        ("client", get()),
        ("upstream", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"),
    ],
}


def played(name: str) -> Joined:
    joined = Joined(tcp_pair)
    for who, words in STEPS[name]:
        (joined.client if who == "client" else joined.upstream).say(words)
    joined.upstream.hear()
    joined.client.hear()
    assert joined.outcomes == []
    return joined


@pytest.mark.parametrize("name", STEPS)
def test_one_who_awaits_the_outcome_and_is_cancelled_leaves_nothing_open(name: str) -> None:
    joined = played(name)
    joined.done.cancel()
    joined.client.hear()
    joined.upstream.hear()
    assert joined.client.reset and joined.upstream.reset
    assert joined.dialled.lost == 1 and joined.served.lost == 1
    assert joined.outcomes == [] and joined.failures[0].check(CancelledError)
    assert joined.loop.getDelayedCalls() == []


@pytest.mark.parametrize("name", STEPS)
def test_lost_client_cuts_the_upstream(name: str) -> None:
    joined = played(name)
    joined.client.reset_now()
    joined.upstream.hear()
    assert joined.upstream.reset and isinstance(joined.outcome, Broken)
    assert joined.outcome.side is Side.CLIENT
    assert joined.loop.getDelayedCalls() == []


@pytest.mark.parametrize("how", ["reset_now", "close"])
@pytest.mark.parametrize("name", STEPS)
def test_lost_upstream_never_looks_like_an_end(name: str, how: str) -> None:
    joined = played(name)
    lose: Callable[[], None] = getattr(joined.upstream, how)
    lose()
    joined.client.hear()
    assert not joined.client.ended and not joined.client.heard.endswith(b"0\r\n\r\n")
    if joined.client.heard:
        assert joined.client.reset and isinstance(joined.outcome, Broken)
    else:
        assert isinstance(joined.outcome, Unanswered)
        hello(joined.served.last)
        assert joined.client.hear().endswith(b"hello\n")


@pytest.mark.parametrize("name", STEPS)
def test_silence_ends_every_step(name: str) -> None:
    joined = played(name)
    for _ in range(4):
        joined.loop.advance(40)
        joined.loop.settle()
    assert len(joined.outcomes) == 1
    assert joined.dialled.lost == 1 and joined.served.lost == 1
    assert joined.loop.getDelayedCalls() == []


def test_stalled_upstream_is_given_up_before_its_client_is() -> None:
    joined = Joined(tcp_pair, Timeouts(idle=60))
    joined.client.say(get())
    joined.loop.advance(60)
    assert joined.outcome == Unanswered(Why(Cause.NO_ANSWER), None, 0)
    hello(joined.served.last)
    assert joined.client.hear().endswith(b"hello\n")


def test_client_that_stops_in_the_middle_of_its_request_is_the_one_who_is_late() -> None:
    joined = Joined(tcp_pair, Timeouts(idle=60))
    joined.client.say(post(10, b"abc"))
    joined.loop.advance(60)
    joined.upstream.hear()
    assert joined.outcome == Unanswered(Why(Cause.NO_REQUEST), None, 3)
    assert joined.upstream.reset
    hello(joined.served.last)
    assert joined.client.hear().endswith(b"hello\n")


def test_client_that_stops_sending_under_an_answer_is_cut() -> None:
    joined = Joined(tcp_pair, Timeouts(idle=60))
    joined.client.say(post(10, b"abc"))
    joined.upstream.say(OK + b"Content-Length: 10\r\n\r\nabc")
    joined.loop.advance(61)
    joined.client.hear()
    joined.upstream.hear()
    assert isinstance(joined.outcome, Broken) and joined.outcome.side is Side.CLIENT
    assert joined.client.reset and joined.upstream.reset


def test_upstream_that_takes_no_more_is_the_one_who_is_late() -> None:
    joined = Joined(timeouts=Timeouts(idle=60))
    joined.client.say_some(post(MEGABYTES, bytes(MEGABYTES)))
    joined.loop.advance(60)
    assert isinstance(joined.outcome, Unanswered) and joined.outcome.why.cause is Cause.NO_ANSWER


def test_client_that_stops_reading_gives_both_ends_up() -> None:
    joined = Joined()
    joined.client.say(get())
    joined.upstream.say_some(OK + b"Content-Length: %d\r\n\r\n" % MEGABYTES + bytes(1_000_000))
    joined.loop.advance(60)
    joined.loop.settle()
    assert isinstance(joined.outcome, Broken)
    assert joined.dialled.lost == 1 and joined.served.lost == 1
