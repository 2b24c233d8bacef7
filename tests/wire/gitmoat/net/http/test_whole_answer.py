"""What is kept of a body weighs what the body does, in however many pieces it comes."""

import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.incoming import Incoming
from gitmoat.net.http.server_end import ServerConnection
from gitmoat.net.http.whole_answer import NoAnswer, WholeAnswer
from gitmoat.net.relay import Relay
from gitmoat.wire.http.heads import Chunked, NoBody, RequestHead, ResponseHead

_SIZE = 64 * 1024
_HEAD = ResponseHead(200, (), NoBody(), close=False)


def whole() -> Callable[[memoryview], None]:
    return WholeAnswer(_SIZE).body


def kept_by_a_relay() -> Callable[[memoryview], None]:
    """Whose other end takes everything, and keeps nothing."""
    clock = Clock()
    head = RequestHead(b"POST", b"/", (), Chunked(), False, False)
    incoming = Incoming(ServerConnection(clock, lambda _: None), clock, head)
    relay = Relay(
        incoming, ClientConnection(clock), b"", Chunked(), lambda _: (200, ()), keep=_SIZE
    )

    class Taken:
        def write(self, *pieces: bytes | memoryview) -> None:
            pass

    relay._up = cast(Any, Taken())
    return relay.to_upstream


@pytest.mark.parametrize("keeper", [whole, kept_by_a_relay])
def test_one_byte_at_a_time_weighs_no_more(keeper: Callable[[], Callable[..., None]]) -> None:
    take = keeper()
    byte = bytes(1)
    tracemalloc.start()
    try:
        for _ in range(_SIZE // 32):
            take(*(memoryview(byte) for _ in range(32)))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert _SIZE <= grown < 4 * _SIZE


def test_an_answer_comes_whole_or_not_at_all() -> None:
    fits, too_long = WholeAnswer(4), WholeAnswer(4)
    for each, pieces in ((fits, (b"ab", memoryview(b"cd"))), (too_long, (b"ab", b"cde"))):
        each.response(_HEAD)
        each.body(*pieces)
        each.body_done()
    got: list[object] = []
    fits.done.addBoth(got.append)
    too_long.done.addErrback(lambda failure: got.append(failure.check(NoAnswer)))
    assert got == [(_HEAD, b"abcd"), NoAnswer]
