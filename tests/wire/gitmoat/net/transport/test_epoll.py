"""The loop both hops run: Twisted's, but for the clock."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.transport.epoll import Epoll


@implementer(IReadDescriptor)
@define(eq=False)
class Reader:
    """Something to read has come; `fails` when it is read, and again when that is its end."""

    fails: bool = False
    heard: list[bytes] = field(factory=list)
    ends: list[socket.socket] = field(factory=lambda: list(socket.socketpair()))

    def fileno(self) -> int:
        return self.ends[0].fileno()

    def logPrefix(self) -> str:
        return "reader"

    def doRead(self) -> None:
        self.heard.append(self.ends[0].recv(10))
        if self.fails:
            raise ValueError("while reading")

    def connectionLost(self, reason: Failure) -> None:
        raise ValueError("at the end")


@pytest.fixture
def loop() -> Iterator[Any]:
    made: Any = Epoll()
    yield made
    made.waker.connectionLost(Failure(ConnectionDone()))
    made._poller.close()


def test_what_fails_at_its_end_holds_up_nobody(loop: Any) -> None:
    readers = [Reader(), Reader(fails=True), Reader()]
    for reader in readers:
        loop.addReader(reader)
        reader.ends[1].send(b"x")
    loop.iterate(1)
    assert [reader.heard for reader in readers] == [[b"x"]] * 3
    for end in [end for reader in readers for end in reader.ends]:
        end.close()


def test_a_step_of_the_wall_clock_moves_no_timer(loop: Any) -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= loop.seconds() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_timer_rings_when_nothing_comes(loop: Any) -> None:
    rung: list[str] = []
    loop.callLater(0.01, rung.append, "rung")
    while not rung:
        loop.iterate(loop.timeout())
    assert rung == ["rung"]
