"""The client's end: what comes back, when it may be used again, and every way it can fail."""

import socket
from collections.abc import Callable

import pytest
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from gitmoat.net.http.client_end import FRAMING
from gitmoat.net.http.ends import Timeouts
from gitmoat.wire.http.heads import Chunked, Length, NoBody, Piece, format_request, framing_headers
from tests.fakes.hand_loop import small_pair, tcp_pair
from tests.fakes.http_ends import Dialled, Endless, Recorder

GET = format_request(b"GET", b"/", [(b"Host", b"h")])
OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
Pair = Callable[[], tuple[socket.socket, socket.socket]]


def post(framing: Length | Chunked) -> bytes:
    return format_request(b"POST", b"/", [(b"Host", b"h"), *framing_headers(framing)])


def asked(pair: Pair = small_pair, timeouts: Timeouts | None = None) -> tuple[Dialled, Recorder]:
    """A connection with a plain GET under way."""
    dialled, sink = Dialled(pair, timeouts), Recorder()
    dialled.connection.send(GET, NoBody(), sink)
    assert dialled.server.hear() == GET
    return dialled, sink


@pytest.mark.parametrize("answer", [HELLO, CHUNKS, b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO])
def test_connection_is_reusable_after_a_clean_exchange(answer: bytes, pair: Pair) -> None:
    dialled = Dialled(pair)
    for _ in range(3):
        sink = Recorder()
        dialled.connection.send(GET, NoBody(), sink)
        assert not dialled.connection.idle
        dialled.server.say(answer)
        assert sink.head is not None and sink.head.status == 200
        assert (sink.data, sink.ends) == (b"hello", ["done"])
        assert dialled.connection.idle
    assert (dialled.ready, dialled.lost) == (1, 0)
    dialled.loop.advance(Timeouts().idle)
    assert dialled.connection.idle and dialled.loop.getDelayedCalls() == []


@pytest.mark.parametrize("answer", [HELLO, CHUNKS])
def test_answer_may_arrive_byte_by_byte(answer: bytes) -> None:
    dialled, sink = asked()
    for byte in answer:
        assert not sink.ends
        dialled.server.say(bytes([byte]))
    assert (sink.data, sink.ends) == (b"hello", ["done"])


def test_answer_without_body_is_whole_with_its_head() -> None:
    dialled, sink = asked()
    dialled.server.say(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert sink.ends == ["done"] and dialled.connection.idle


def test_request_body_is_written_in_its_framing() -> None:
    for framing, expected in (
        (Length(5), b"hello"),
        (Chunked(), b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
    ):
        dialled = Dialled()
        out = dialled.connection.send(post(framing), framing, Recorder())
        out.write(b"hel")
        out.write(b"lo")
        out.finish()
        assert dialled.server.hear() == post(framing) + expected


def test_busy_connection_takes_no_second_request() -> None:
    dialled, _ = asked()
    with pytest.raises(RuntimeError):
        dialled.connection.send(GET, NoBody(), Recorder())


@pytest.mark.parametrize("reset", [True, False])
def test_body_until_close_is_whole_only_after_an_orderly_close(reset: bool) -> None:
    dialled, sink = asked(tcp_pair)
    dialled.server.say(OK + b"\r\nhello")
    assert (sink.data, sink.ends) == (b"hello", [])
    (dialled.server.reset_now if reset else dialled.server.close)()
    assert sink.ends == (["failed: connection was lost"] if reset else ["done"])
    assert dialled.lost == 1 and not dialled.connection.idle


@pytest.mark.parametrize("answer", [HELLO, CHUNKS])
@pytest.mark.parametrize("reset", [True, False])
def test_answer_cut_anywhere_fails(answer: bytes, reset: bool) -> None:
    for at in range(0, len(answer), 7):
        dialled, sink = asked(tcp_pair)
        dialled.server.say(answer[:at])
        (dialled.server.reset_now if reset else dialled.server.close)()
        assert len(sink.ends) == 1 and sink.ends[0].startswith("failed")
        assert dialled.lost == 1 and dialled.loop.getDelayedCalls() == []


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5,
    ],
)
def test_malformed_answer_fails_and_cuts_the_connection(answer: bytes) -> None:
    dialled, sink = asked(tcp_pair)
    dialled.server.say(answer)
    assert len(sink.ends) == 1 and sink.ends[0].startswith("failed")
    dialled.server.hear()
    assert dialled.server.reset and not dialled.connection.idle


@pytest.mark.parametrize("more", [b"x", HELLO, b"\r\n"])
@pytest.mark.parametrize("answer", [HELLO, CHUNKS, b"HTTP/1.1 204 No Content\r\n\r\n"])
def test_bytes_behind_the_answer_end_the_connection(answer: bytes, more: bytes) -> None:
    dialled, sink = asked(tcp_pair)
    dialled.server.say(answer + more)
    assert sink.ends == ["done"] and not dialled.connection.idle
    assert dialled.lost == 1


def test_bytes_nobody_asked_for_end_the_connection() -> None:
    dialled = Dialled()
    dialled.server.say(HELLO)
    assert not dialled.connection.idle and dialled.lost == 1


def test_connection_is_not_reused_when_the_server_says_so() -> None:
    dialled, sink = asked()
    dialled.server.say(OK + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    assert sink.ends == ["done"] and not dialled.connection.idle


def test_early_answer_is_delivered_and_the_rest_of_the_request_is_not_sent() -> None:
    dialled, sink = Dialled(tcp_pair), Recorder()
    out = dialled.connection.send(post(Length(100)), Length(100), sink)
    out.write(b"x")
    dialled.server.say(HELLO)
    assert (sink.data, sink.ends) == (b"hello", ["done"])
    assert not dialled.connection.idle and not out.alive
    out.write(bytes(99))
    out.finish()
    assert sink.ends == ["done"]


def test_source_of_an_early_answered_request_is_released() -> None:
    dialled, sink = Dialled(), Recorder()
    source = Endless(dialled.loop, dialled.connection.send(post(Chunked()), Chunked(), sink))
    dialled.loop.settle()
    assert source.paused
    dialled.server.say(HELLO)
    assert sink.ends == ["done"] and source.paused is False


def test_idle_connection_notices_that_the_server_has_gone(pair: Pair) -> None:
    dialled = Dialled(pair)
    dialled.server.close()
    assert dialled.lost == 1 and not dialled.connection.idle


def test_close_when_idle_is_orderly() -> None:
    dialled = Dialled(tcp_pair)
    dialled.connection.close()
    assert not dialled.connection.idle
    dialled.server.hear()
    assert dialled.server.ended and dialled.lost == 1


def test_close_inside_an_exchange_cuts_it() -> None:
    dialled, sink = asked(tcp_pair)
    dialled.connection.close()
    dialled.server.hear()
    assert dialled.server.reset and len(sink.ends) == 1


def test_short_request_is_cut_not_ended() -> None:
    dialled, sink = Dialled(tcp_pair), Recorder()
    out = dialled.connection.send(post(Length(5)), Length(5), sink)
    out.write(b"hel")
    out.finish()
    dialled.server.hear()
    assert dialled.server.reset and len(sink.ends) == 1


def test_answer_must_come_in_time_and_progress_resets_it() -> None:
    dialled, sink = asked()
    for byte in HELLO[:3]:
        dialled.loop.advance(59)
        dialled.server.say(bytes([byte]))
    dialled.loop.advance(59)
    assert not sink.ends
    dialled.loop.advance(1)
    assert sink.ends == ["failed: no answer in time"]


def test_server_that_does_not_read_is_given_up() -> None:
    dialled, sink = Dialled(), Recorder()
    source = Endless(dialled.loop, dialled.connection.send(post(Chunked()), Chunked(), sink))
    dialled.loop.settle()
    dialled.loop.advance(59)
    dialled.server.hear(300_000)
    dialled.loop.advance(59)
    assert not sink.ends and source.written < 1_000_000
    dialled.loop.advance(1)
    assert sink.ends == ["failed: no answer in time"] and not source.out.alive


def test_answer_nobody_takes_is_given_up() -> None:
    dialled, sink = asked()
    dialled.server.say(OK + b"Content-Length: 5\r\n\r\n")
    dialled.connection.pause_reading()
    dialled.server.say(b"hello")
    dialled.loop.advance(60)
    assert sink.data == b"" and sink.ends == ["failed: no answer in time"]


def test_paused_answer_is_held_back_and_then_whole() -> None:
    dialled, sink = asked()
    dialled.connection.pause_reading()
    taken = dialled.server.say_some(OK + b"Content-Length: 9000000\r\n\r\n" + bytes(9_000_000))
    assert taken < 400_000 and sink.head is None
    dialled.connection.resume_reading()
    dialled.server.say(bytes(9_000_000 + len(OK) + 27 - taken))
    assert len(sink.data) == 9_000_000 and sink.ends == ["done"]


def test_connection_is_reusable_although_it_was_paused_at_the_end() -> None:
    class Busy(Recorder):
        def body(self, *pieces: Piece) -> None:
            super().body(*pieces)
            dialled.connection.pause_reading()

    dialled, sink = Dialled(), Busy()
    for _ in range(2):
        sink = Busy()
        dialled.connection.send(GET, NoBody(), sink)
        dialled.server.say(HELLO)
        assert sink.ends == ["done"] and dialled.connection.idle


def test_answer_that_came_before_the_end_is_whole_although_it_was_paused() -> None:
    dialled, sink = asked(tcp_pair)
    dialled.connection.pause_reading()
    dialled.connection.dataReceived(HELLO)
    dialled.server.close()
    dialled.transport.connectionLost(lost())
    assert not sink.ends
    dialled.connection.resume_reading()
    assert (sink.data, sink.ends) == (b"hello", ["done"])


def test_answer_cut_while_it_was_paused_fails_once_it_is_read() -> None:
    dialled, sink = asked(tcp_pair)
    dialled.connection.pause_reading()
    dialled.connection.dataReceived(HELLO[:-1])
    dialled.transport.connectionLost(lost())
    assert not sink.ends
    dialled.connection.resume_reading()
    assert sink.data == b"hell" and sink.ends == ["failed: connection was lost"]


def lost() -> Failure:
    return Failure(ConnectionLost())


def test_an_answer_in_chunks_of_single_bytes_is_not_read_for_ever() -> None:
    dialled, sink = asked(tcp_pair)
    dialled.server.say(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        if sink.ends:
            break
        dialled.server.say(b"1\r\nx\r\n" * 1000)
    assert sink.ends == ["failed: answer is cut too finely"]
    assert len(sink.data) <= FRAMING


def test_chunks_of_a_dozen_bytes_pass_however_many() -> None:
    dialled, sink = asked(tcp_pair)
    dialled.server.say(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        dialled.server.say(b"c\r\nabcdefghijkl\r\n" * 1000)
    dialled.server.say(b"0\r\n\r\n")
    assert sink.ends == ["done"] and len(sink.data) == 1_200_000
