"""The server's end: one exchange at a time, in order."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from gitmoat.wire.http.heads import Chunked, Length, NoBody, Piece
from tests.fakes.hand_loop import tcp_pair
from tests.fakes.http_ends import (
    HELLO,
    TEXT,
    Recorder,
    Served,
    get,
    hello,
    post,
    streaming,
)

Pair = Callable[[], tuple[socket.socket, socket.socket]]


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def writes_of(transport: Any) -> list[list[Any]]:
    """What is written to it from now on, each time."""
    writes: list[list[Any]] = []
    original = transport.write

    def write(*pieces: Any) -> None:
        writes.append([*pieces])
        original(*pieces)

    transport.write = write
    return writes


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
    writes = writes_of(served.transport)
    served.client.say(get())
    assert writes == [[HELLO]]


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
        def body(self, *pieces: Piece) -> None:
            super().body(*pieces)
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
    writes = writes_of(served.transport)
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
        served.client.hear()
    out.finish()
    served.client.hear()
    assert served.client.reset and served.lost == 1
    assert b"too long" not in served.client.heard


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
