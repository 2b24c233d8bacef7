"""How long the server waits, and how much it holds meanwhile."""

import socket
from collections.abc import Callable

from gitmoat.net.http.ends import Timeouts
from gitmoat.wire.http.heads import Chunked
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
