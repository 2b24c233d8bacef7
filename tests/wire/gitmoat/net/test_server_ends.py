"""The ways an exchange ends at the server: early, malformed, or without its client."""

import socket
from collections.abc import Callable

import pytest

from gitmoat.net.http.ends import Incoming, Timeouts
from gitmoat.wire.http.heads import Chunked, Length
from gitmoat.wire.malformed import Malformed
from tests.fakes.hand_loop import tcp_pair
from tests.fakes.http_ends import (
    HELLO,
    Endless,
    Recorder,
    Served,
    get,
    hello,
    post,
    streaming,
)

Pair = Callable[[], tuple[socket.socket, socket.socket]]


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
    assert served.transport not in served.loop.readers
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
