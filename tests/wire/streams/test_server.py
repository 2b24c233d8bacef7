"""The server's end: one exchange at a time, in order, and every way it can end."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from gitwire.errors import Malformed
from gitwire.http import Chunked, Length, NoBody
from streams.http import Incoming, Timeouts
from tests.fakes.hand_loop import small_pair, tcp_pair
from tests.fakes.http_ends import TEXT, Endless, Recorder, Served, get, hello, post

HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
Pair = Callable[[], tuple[socket.socket, socket.socket]]


@pytest.fixture(params=[small_pair, tcp_pair])
def pair(request: pytest.FixtureRequest) -> Pair:
    kind: Pair = request.param
    return kind


def streaming(sink: Recorder) -> Callable[[Incoming], None]:
    def on_request(incoming: Incoming) -> None:
        incoming.stream(sink)

    return on_request


def spied(transport: Any, name: str) -> list[Any]:
    """What `name` of the transport is called with from now on."""
    calls: list[Any] = []
    original = getattr(transport, name)

    def call(data: Any) -> None:
        calls.append(data)
        original(data)

    setattr(transport, name, call)
    return calls


def test_connection_serves_request_after_request(pair: Pair) -> None:
    served = Served(hello, pair)
    for _ in range(3):
        served.client.say(get())
        assert served.client.hear() == HELLO
    assert len(served.requests) == 3 and not served.lost


def test_request_may_arrive_byte_by_byte() -> None:
    served = Served(hello)
    for byte in get():
        served.client.say(bytes([byte]))
    assert served.client.hear() == HELLO


def test_answer_is_one_write() -> None:
    served = Served(hello)
    writes = spied(served.transport, "write")
    served.client.say(get())
    assert writes == [HELLO]


def test_pipelined_requests_are_answered_one_after_the_other() -> None:
    served = Served()
    served.client.say(get(b"/1") + get(b"/2") + get(b"/3"))
    assert [each.head.target for each in served.requests] == [b"/1"]
    hello(served.last)
    served.loop.settle()
    assert [each.head.target for each in served.requests] == [b"/1", b"/2"]
    hello(served.last)
    hello(served.last)
    assert served.client.hear() == HELLO * 3


def test_reading_pauses_while_pipelined_requests_wait() -> None:
    served = Served()
    served.client.say(get(b"/1"))
    taken = served.client.say_some(get(b"/2") * 100_000)
    assert taken < 200_000
    assert sum(map(len, served.connection.inbox)) <= 65536


def test_client_that_does_not_read_its_answers_gets_no_further_ones() -> None:
    served = Served(lambda incoming: incoming.reply(200, TEXT, bytes(4000)))
    served.client.say_some(get() * 20_000)
    assert len(served.requests) < 100
    assert served.loop.peak < 2 * 65536 + 4200


def test_body_waits_until_somebody_takes_it() -> None:
    served = Served()
    taken = served.client.say_some(post(10**9, bytes(10**6)))
    assert taken < 300_000
    sink = Recorder()
    served.last.stream(sink)
    served.loop.settle()
    assert len(sink.data) + len(post(10**9)) == taken and not sink.ends


@pytest.mark.parametrize(
    ("length", "raw"),
    [
        (5, b"hello"),
        (None, b"5\r\nhello\r\n0\r\n\r\n"),
        (None, b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
    ],
)
def test_body_is_delivered_whole_with_either_framing(length: int | None, raw: bytes) -> None:
    sink = Recorder()
    served = Served(streaming(sink))
    served.client.say(post(length, raw) + get(b"/next"))
    assert (sink.data, sink.ends) == (b"hello", ["done"])
    hello(served.last)
    assert served.client.hear() == HELLO
    assert served.last.head.target == b"/next"


def test_whole_requests_have_their_end_at_once() -> None:
    sink = Recorder()
    Served(streaming(sink)).client.say(get())
    assert sink.ends == ["done"]


def test_second_sink_takes_over_where_the_first_one_was() -> None:
    first, second, third = Recorder(), Recorder(), Recorder()
    served = Served(streaming(first))
    served.client.say(post(10, b"abc"))
    served.last.stream(second)
    served.client.say(b"defghij")
    served.last.stream(third)
    assert (first.data, first.ends) == (b"abc", [])
    assert (second.data, second.ends) == (b"defghij", ["done"])
    assert (third.data, third.ends) == (b"", ["done"])


def test_sink_may_be_replaced_while_it_is_given_the_last_piece() -> None:
    second = Recorder()

    class First(Recorder):
        def body(self, data: bytes) -> None:
            super().body(data)
            served.last.stream(second)

    first = First()
    served = Served(streaming(first))
    served.client.say(post(3, b"abc"))
    assert (first.data, first.ends, second.ends) == (b"abc", [], ["done"])


def test_two_reasons_to_hold_do_not_undo_each_other() -> None:
    sink = Recorder()
    served = Served(streaming(sink))
    served.client.say(post(10, b"a"))
    served.last.hold("one")
    served.last.hold("two")
    served.client.say(b"bcd")
    served.last.release("one")
    served.last.release("one")
    served.loop.settle()
    assert sink.data == b"a"
    served.last.release("two")
    served.loop.settle()
    assert sink.data == b"abcd"


def test_late_hold_of_an_old_request_does_not_stop_the_next() -> None:
    served = Served(hello)
    served.client.say(get())
    served.last.hold("late")
    served.client.say(get())
    assert served.client.hear() == HELLO * 2


def test_continue_is_sent_when_the_body_is_wanted_and_not_before() -> None:
    served = Served()
    served.client.say(post(5, more=b"Expect: 100-continue\r\n"))
    assert served.client.hear() == b""
    sink = Recorder()
    served.last.stream(sink)
    assert served.client.hear() == CONTINUE
    served.client.say(b"hello")
    assert sink.data == b"hello"
    hello(served.last)
    served.client.say(get())
    assert served.client.hear() == HELLO


def test_continue_is_not_sent_when_the_body_is_there() -> None:
    sink = Recorder()
    served = Served(streaming(sink))
    served.client.say(post(5, b"hello", b"Expect: 100-continue\r\n"))
    hello(served.last)
    assert served.client.hear() == HELLO


def test_refusal_without_continue_ends_the_connection_in_order(pair: Pair) -> None:
    served = Served(hello, pair)
    served.client.say(post(5, more=b"Expect: 100-continue\r\n"))
    assert b"Connection: close" in served.client.hear()
    assert served.client.ended and not served.client.reset


def test_connection_closes_when_the_client_asks_for_it(pair: Pair) -> None:
    served = Served(hello, pair)
    served.client.say(get(more=b"Connection: close\r\n"))
    assert b"Connection: close" in served.client.hear()
    assert served.client.ended
    served.client.close()
    assert served.lost == 1


@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        (Length(6), b"Content-Length: 6\r\n\r\nhello\n"),
        (Chunked(), b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n\n\r\n0\r\n\r\n"),
    ],
)
def test_answer_may_be_written_in_pieces(framing: Length | Chunked, expected: bytes) -> None:
    served = Served()
    served.client.say(get())
    out = served.last.begin(200, (), framing)
    out.write(b"hello")
    out.write(b"")
    served.loop.settle()
    out.write(b"\n")
    out.finish()
    assert served.client.hear() == b"HTTP/1.1 200 OK\r\n" + expected
    served.client.say(get())
    assert len(served.requests) == 2


def test_head_leaves_with_the_first_piece_or_soon_alone() -> None:
    served = Served()
    writes = spied(served.transport, "writeSequence")
    served.client.say(get())
    out = served.last.begin(200, (), Length(1))
    out.write(b"x")
    out.finish()
    assert len(writes) == 1 and len(writes[0]) == 2
    served.client.say(get())
    served.client.hear()
    served.last.begin(200, (), Length(1))
    assert served.client.hear().endswith(b"Content-Length: 1\r\n\r\n")


def test_answer_without_body_is_whole_at_once() -> None:
    served = Served(lambda incoming: incoming.begin(204, (), NoBody()))  # type: ignore[arg-type]
    served.client.say(get() + get())
    assert served.client.hear() == b"HTTP/1.1 204 No Content\r\n\r\n" * 2


def test_head_request_gets_no_body() -> None:
    served = Served(hello)
    served.client.say(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + get())
    assert served.client.hear() == HELLO[:-6] + HELLO


@pytest.mark.parametrize("pieces", [[b"too long"], [b"x"]])
def test_answer_of_another_length_than_promised_is_cut(pieces: list[bytes]) -> None:
    served = Served(pair=tcp_pair)
    served.client.say(get())
    out = served.last.begin(200, (), Length(2))
    for piece in pieces:
        out.write(piece)
    out.finish()
    served.client.hear()
    assert served.client.reset and served.lost == 1


def test_aborted_answer_has_no_last_chunk_and_no_orderly_end() -> None:
    served = Served(pair=tcp_pair)
    served.client.say(get())
    out = served.last.begin(200, (), Chunked())
    out.write(b"hello")
    served.client.hear()
    out.abort()
    served.client.hear()
    assert served.client.reset and not served.client.heard.endswith(b"0\r\n\r\n")


def test_answering_twice_is_an_error_of_ours() -> None:
    served = Served(hello)
    served.client.say(get())
    with pytest.raises(RuntimeError):
        hello(served.last)


def test_close_lets_the_exchange_under_way_end(pair: Pair) -> None:
    served = Served(pair=pair)
    served.client.say(get(b"/1") + get(b"/2"))
    served.connection.close()
    assert served.client.hear() == b""
    hello(served.last)
    assert b"Connection: close" in served.client.hear()
    assert served.client.ended and len(served.requests) == 1


def test_close_between_requests_is_orderly_and_at_once(pair: Pair) -> None:
    served = Served(hello, pair)
    served.client.say(get())
    served.connection.close()
    assert served.client.hear() == HELLO and served.client.ended and not served.client.reset
    served.client.close()
    served.connection.close()
    assert served.lost == 1


# Early answers


def test_early_answer_then_the_rest_is_dropped_and_the_connection_lives(pair: Pair) -> None:
    served = Served(hello, pair)
    served.client.say(post(300_000, bytes(1000)))
    assert served.client.hear() == HELLO
    served.client.say(bytes(299_000) + get(b"/next"))
    assert served.client.hear() == HELLO
    assert served.last.head.target == b"/next"


def test_early_answer_beyond_the_limit_ends_in_order_not_with_a_reset() -> None:
    def refuse(incoming: Incoming) -> None:
        incoming.discard(100_000)
        hello(incoming)

    served = Served(refuse, tcp_pair)
    served.client.say(post(None, b"30d40\r\n" + bytes(200_000)))
    assert served.client.hear() == HELLO
    assert served.client.ended and not served.client.reset
    served.client.say(bytes(300_000))
    served.client.close()
    assert served.lost == 1


def test_discard_limit_is_kept_before_the_answer_too() -> None:
    served = Served(lambda incoming: incoming.discard(100_000))
    taken = served.client.say_some(post(10**9, bytes(10**6)))
    assert taken < 500_000
    hello(served.last)
    assert b"Connection: close" in served.client.hear() and served.client.ended


def test_rest_of_an_early_answered_body_must_come_in_time() -> None:
    served = Served(hello, tcp_pair, Timeouts(drain=30, idle=20))
    served.client.say(post(10**6))
    for _ in range(3):
        served.loop.advance(10)
        served.client.say(b"x")
    assert served.client.hear() == HELLO and served.client.ended
    assert not served.client.reset
    served.loop.advance(5)
    served.loop.settle()
    assert served.lost == 1


def test_malformed_rest_of_an_answered_body_cuts_the_connection() -> None:
    served = Served(hello, tcp_pair)
    served.client.say(post(None, b"5\r\nhello\r\n"))
    served.client.say(b"5;x\r\n")
    served.client.hear()
    assert served.client.heard == HELLO and served.client.reset


# Malformed input


def test_malformed_head_gets_one_answer_and_the_end(pair: Pair) -> None:
    served = Served(hello, pair)
    served.client.say(b"get / HTTP/1.1\r\nHost: h\r\n\r\n" + get())
    heard = served.client.hear()
    assert heard.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n")
    assert b"Connection: close" in heard and heard.count(b"Content-Length") == 1
    assert served.client.ended and not served.client.reset
    assert served.requests == [] and len(served.malformed) == 1
    served.client.close()
    assert served.lost == 1


def test_malformed_second_request_is_refused_after_the_first_is_answered() -> None:
    served = Served()
    served.client.say(get() + b"nonsense\r\n")
    assert served.client.hear() == b""
    hello(served.last)
    heard = served.client.hear()
    assert heard.startswith(HELLO + b"HTTP/1.1 400 ")


def test_handler_may_refuse_by_raising_malformed() -> None:
    def refuse(incoming: Incoming) -> None:
        raise Malformed("not served", 415)

    served = Served(refuse)
    served.client.say(post(3, b"abc"))
    assert served.client.hear().startswith(b"HTTP/1.1 415 ")
    assert served.client.ended


def test_malformed_body_fails_the_sink_and_is_refused() -> None:
    sink = Recorder()
    served = Served(streaming(sink))
    gone: list[str] = []
    served.client.say(post(None, b"5\r\nhello\r\n"))
    served.last.on_lost(lambda: gone.append("lost"))
    served.client.say(b"5;ext\r\nhello\r\n0\r\n\r\n")
    assert (sink.data, sink.ends, gone) == (b"hello", ["failed"], ["lost"])
    assert served.client.hear().startswith(b"HTTP/1.1 400 ")
    hello(served.last)
    assert served.client.hear() == b""


def test_malformed_body_under_a_begun_answer_is_cut() -> None:
    served = Served(pair=tcp_pair)
    served.client.say(post(None, b"5\r\nhello\r\n"))
    served.last.stream(Recorder())
    served.last.begin(200, (), Chunked()).write(b"x")
    served.client.hear()
    served.client.say(b"zz\r\n")
    served.client.hear()
    assert served.client.reset and not served.client.heard.endswith(b"0\r\n\r\n")


# Lost clients


@pytest.mark.parametrize("sent", [1, 20, len(get()) - 1])
def test_client_gone_inside_a_head_is_forgotten(sent: int) -> None:
    served = Served(hello, tcp_pair)
    served.client.say(get()[:sent])
    served.client.reset_now()
    assert served.lost == 1 and served.requests == []
    assert served.loop.getDelayedCalls() == []


@pytest.mark.parametrize("reset", [True, False])
def test_client_gone_inside_its_body_fails_the_request(reset: bool) -> None:
    sink = Recorder()
    served = Served(streaming(sink), tcp_pair)
    gone: list[str] = []
    served.client.say(post(10, b"abc"))
    served.last.on_lost(lambda: gone.append("lost"))
    (served.client.reset_now if reset else served.client.close)()
    assert (sink.ends, gone, served.lost) == (["failed"], ["lost"], 1)
    late = Recorder()
    served.last.stream(late)
    served.last.on_lost(lambda: gone.append("late"))
    hello(served.last)
    served.last.begin(200, (), Length(1)).write(b"x")
    assert (late.ends, gone) == (["failed"], ["lost", "late"])
    assert served.loop.getDelayedCalls() == []


def test_client_gone_while_it_waits_for_an_answer_is_told() -> None:
    served = Served(pair=tcp_pair)
    gone: list[str] = []
    served.client.say(get())
    served.last.on_lost(lambda: gone.append("lost"))
    served.client.reset_now()
    assert gone == ["lost"] and served.lost == 1


def test_client_gone_inside_its_answer_is_told() -> None:
    served = Served(pair=tcp_pair)
    gone: list[str] = []
    served.client.say(get())
    served.last.on_lost(lambda: gone.append("lost"))
    source = Endless(served.loop, served.last.begin(200, (), Chunked()))
    served.client.hear(100)
    served.client.reset_now()
    assert gone == ["lost"] and served.lost == 1
    assert not source.out.alive and not source.paused


def test_half_closed_client_still_gets_its_answers(pair: Pair) -> None:
    served = Served(pair=pair)
    served.client.say(get(b"/1") + post(5, b"hello"))
    served.client.half_close()
    hello(served.last)
    served.loop.settle()
    sink = Recorder()
    served.last.stream(sink)
    assert sink.ends == ["done"]
    hello(served.last)
    assert served.client.hear() == HELLO * 2
    assert served.client.ended and served.lost == 1


def test_half_close_inside_a_body_is_no_end_of_it() -> None:
    sink = Recorder()
    served = Served(streaming(sink), tcp_pair)
    served.client.say(post(10, b"abc"))
    served.client.half_close()
    assert sink.ends == ["failed"] and served.lost == 1


def test_half_close_between_requests_closes() -> None:
    served = Served(hello, tcp_pair)
    served.client.say(get())
    served.client.half_close()
    assert served.client.hear() == HELLO and served.client.ended
    assert served.lost == 1 and served.loop.getDelayedCalls() == []


# Time


def test_silent_connection_is_closed_in_order() -> None:
    served = Served(pair=tcp_pair, timeouts=Timeouts(wait=60))
    served.loop.advance(59)
    assert served.client.hear() == b"" and not served.client.ended
    served.loop.advance(1)
    assert served.client.hear() == b"" and served.client.ended


def test_head_must_be_whole_in_time_however_often_a_byte_comes() -> None:
    served = Served(pair=tcp_pair)
    for byte in get()[:9]:
        served.client.say(bytes([byte]))
        served.loop.advance(1)
    assert served.client.hear() == b""
    served.loop.advance(1)
    assert served.client.hear().startswith(b"HTTP/1.1 408 ")
    assert served.client.ended


def test_stalled_body_is_cut_after_the_idle_time_and_progress_resets_it() -> None:
    sink = Recorder()
    served = Served(streaming(sink), tcp_pair, Timeouts(idle=60, grace=0))
    served.client.say(post(10, b"a"))
    for _ in range(3):
        served.loop.advance(59)
        served.client.say(b"b")
    assert not sink.ends
    served.loop.advance(60)
    served.client.hear()
    assert sink.ends == ["failed"] and served.client.reset and served.lost == 1


def test_client_that_stops_reading_is_cut_after_the_idle_time() -> None:
    served = Served(timeouts=Timeouts(idle=60, grace=0))
    gone: list[str] = []
    served.client.say(get())
    served.last.on_lost(lambda: gone.append("lost"))
    source = Endless(served.loop, served.last.begin(200, (), Chunked()))
    served.loop.settle()
    for _ in range(3):
        served.loop.advance(59)
        served.client.hear(200_000)
    assert not gone
    served.loop.advance(60)
    served.loop.settle()
    assert gone == ["lost"] and not source.out.alive


def test_connection_held_by_back_pressure_is_cut_after_the_idle_time() -> None:
    sink = Recorder()
    served = Served(streaming(sink), timeouts=Timeouts(idle=60, grace=0))
    served.client.say(post(10, b"a"))
    served.last.hold("busy")
    served.client.say(b"b")
    served.loop.advance(60)
    served.loop.settle()
    assert sink.ends == ["failed"] and served.lost == 1


def test_request_that_nobody_answers_is_cut_in_the_end() -> None:
    served = Served()
    served.client.say(get())
    served.loop.advance(65)
    served.loop.settle()
    assert served.lost == 1


def test_peer_that_never_closes_does_not_keep_the_connection() -> None:
    served = Served(hello, tcp_pair)
    served.client.say(get(more=b"Connection: close\r\n"))
    assert served.client.hear() and served.client.ended
    assert served.lost == 0
    served.loop.advance(5)
    served.loop.settle()
    assert served.lost == 1 and served.loop.getDelayedCalls() == []


def test_large_last_answer_is_not_cut_by_the_time_to_linger() -> None:
    body = bytes(300_000)
    served = Served(lambda incoming: incoming.reply(200, (), body, close=True))
    served.client.say(get())
    for _ in range(6):
        served.loop.advance(4)
        served.client.hear(50_000)
    served.client.hear()
    assert served.client.heard.endswith(body[-1000:]) and served.client.ended
    assert len(served.client.heard) > len(body)


# Back-pressure


def test_source_is_paused_while_the_client_does_not_read() -> None:
    served = Served()
    served.client.say(get())
    source = Endless(served.loop, served.last.begin(200, (), Chunked()), 3_000_000)
    served.loop.settle()
    assert (source.paused, source.written < 400_000) == (True, True)
    assert served.loop.peak < 2 * 65536
    served.client.hear()
    assert served.client.heard.endswith(b"0\r\n\r\n")
    served.client.say(get())
    hello(served.last)
    assert served.client.hear() == HELLO


def test_source_bound_late_is_paused_at_once() -> None:
    served = Served()
    served.client.say(get())
    out = served.last.begin(200, (), Chunked())
    out.write(bytes(200_000))
    calls: list[str] = []
    out.bind_source(lambda: calls.append("pause"), lambda: calls.append("resume"))
    assert calls == ["pause"]
    out.finish()
    assert calls == ["pause", "resume"]


def test_one_piece_too_many_does_not_pause_twice() -> None:
    served = Served()
    served.client.say(get())
    out = served.last.begin(200, (), Chunked())
    calls: list[str] = []
    out.bind_source(lambda: calls.append("pause"), lambda: calls.append("resume"))
    out.write(bytes(200_000))
    out.write(bytes(200_000))
    served.client.hear()
    assert calls == ["pause", "resume"]
