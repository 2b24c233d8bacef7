"""Connecting: the first address that answers, within the time, and no socket left behind."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import (
    ConnectError,
    ConnectionRefusedError,
    DNSLookupError,
    TimeoutError,
)
from twisted.python.failure import Failure

from gitmoat.net.transport.dialling import connect, resolve
from tests.fakes.hand_loop import HandLoop

HOME = IPv4Address("127.0.0.1")
ELSEWHERE = IPv4Address("127.0.0.2")
NOWHERE = IPv4Address("255.255.255.255")  # connect(2) refuses it at once


class Result:
    def __init__(self, asked: Deferred[socket.socket]) -> None:
        self.sock: Any = None
        self.error: Any = None
        asked.addCallbacks(self._got, self._failed)

    def _got(self, sock: socket.socket) -> None:
        self.sock = sock

    def _failed(self, reason: Any) -> None:
        self.error = reason.value


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((str(ELSEWHERE), 0)) as made:
        yield made


@pytest.fixture
def deaf() -> Iterator[tuple[socket.socket, int]]:
    """A port of HOME that answers nothing: its backlog is full."""
    with socket.create_server((str(HOME), 0), backlog=0) as made:
        port = made.getsockname()[1]
        fillers = [socket.socket() for _ in range(3)]
        for each in fillers:
            each.setblocking(False)
            each.connect_ex((str(HOME), port))
        yield made, port
        for each in fillers:
            each.close()


def port_of(sock: socket.socket) -> int:
    number: int = sock.getsockname()[1]
    return number


def test_next_address_is_tried_when_one_refuses(listener: socket.socket) -> None:
    loop = HandLoop()
    result = Result(connect(loop, [NOWHERE, HOME, ELSEWHERE], port_of(listener), 5))
    loop.settle(lambda: result.sock is not None)
    assert result.sock.getpeername() == listener.getsockname()
    result.sock.close()
    assert not loop.writers and loop.getDelayedCalls() == []


def test_refused_by_all() -> None:
    loop = HandLoop()
    with socket.create_server((str(HOME), 0)) as gone:
        port = port_of(gone)
    result = Result(connect(loop, [HOME, ELSEWHERE], port, 5))
    loop.settle(lambda: result.error is not None)
    assert isinstance(result.error, ConnectionRefusedError)
    assert not loop.writers and loop.getDelayedCalls() == []


@pytest.mark.parametrize("addresses", [[], [NOWHERE]])
def test_no_address_that_could_be_tried(addresses: list[IPv4Address]) -> None:
    loop = HandLoop()
    result = Result(connect(loop, addresses, 9, 5))
    assert isinstance(result.error, ConnectError) and loop.getDelayedCalls() == []


def test_silent_address_is_given_a_head_start_only(deaf: tuple[socket.socket, int]) -> None:
    loop, (_, port) = HandLoop(), deaf
    with socket.create_server((str(ELSEWHERE), port)) as listener:
        result = Result(connect(loop, [HOME, ELSEWHERE], port, 5))
        loop.settle()
        assert not result.sock
        loop.advance(0.3)
        loop.settle(lambda: result.sock is not None)
        assert result.sock.getpeername() == listener.getsockname()
        result.sock.close()
    assert not loop.writers and loop.getDelayedCalls() == []


def test_time_is_for_all_of_them(deaf: tuple[socket.socket, int]) -> None:
    loop = HandLoop()
    result = Result(connect(loop, [HOME], deaf[1], 5))
    loop.settle()
    loop.advance(5)
    assert isinstance(result.error, TimeoutError)
    assert not loop.writers and loop.getDelayedCalls() == []


def test_cancelled_attempt_leaves_nothing(deaf: tuple[socket.socket, int]) -> None:
    loop = HandLoop()
    asked = connect(loop, [HOME], deaf[1], 5)
    result = Result(asked)
    loop.settle()
    (attempt,) = loop.writers
    asked.cancel()
    assert isinstance(result.error, CancelledError)
    assert attempt.fileno() == -1
    assert not loop.writers and loop.getDelayedCalls() == []


class Threads:
    """A reactor whose threads keep their work until they are told how it ends."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str]] = []
        self.full = False

    def getThreadPool(self) -> "Threads":
        return self

    def callInThreadWithCallback(self, done: Any, work: Any, host: str) -> None:
        if self.full:
            raise RuntimeError("can't start new thread")
        self.asked.append((done, host))

    def callFromThread(self, work: Any, *told: Any) -> None:
        work(*told)

    def end(self, number: int, found: list[IPv4Address] | Exception) -> None:
        good = not isinstance(found, Exception)
        self.asked[number][0](good, found if good else Failure(found))


def test_a_name_is_looked_up_once_at_a_time_however_many_ask() -> None:
    reactor = Threads()
    found: list[Any] = []
    waiting = [resolve(reactor, "slow.example") for _ in range(50)]
    resolve(reactor, "other.example").addCallback(found.append)
    assert [host for _, host in reactor.asked] == ["slow.example", "other.example"]
    waiting[0].addErrback(lambda gone: None)
    waiting[0].cancel()
    for each in waiting[1:]:
        each.addCallback(found.append)
    reactor.end(0, [IPv4Address("192.0.2.1")])
    assert found == [[IPv4Address("192.0.2.1")]] * 49
    reactor.end(1, [])
    assert found[-1] == []
    resolve(reactor, "slow.example")
    assert len(reactor.asked) == 3
    reactor.end(2, [])


def test_who_does_not_wait_any_more_is_forgotten_and_the_question_goes_on() -> None:
    reactor = Threads()
    gone = resolve(reactor, "slow.example")
    gone.addErrback(lambda _: None)
    gone.cancel()
    found: list[Any] = []
    resolve(reactor, "slow.example").addCallback(found.append)
    assert len(reactor.asked) == 1
    reactor.end(0, [HOME])
    assert found == [[HOME]]


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), UnicodeError("label")])
def test_a_lookup_that_fails_is_told_and_the_next_one_asks_again(error: Exception) -> None:
    reactor = Threads()
    told: list[Any] = []
    for _ in range(2):
        resolve(reactor, "git.example").addErrback(told.append)
    reactor.end(0, error)
    assert [type(each.value) for each in told] == [DNSLookupError] * 2
    found: list[Any] = []
    resolve(reactor, "git.example").addCallback(found.append)
    reactor.end(1, [HOME])
    assert found == [[HOME]]


def test_where_no_thread_can_be_had_the_lookup_fails_and_the_next_one_asks_again() -> None:
    reactor = Threads()
    reactor.full = True
    told: list[Any] = []
    resolve(reactor, "git.example").addErrback(told.append)
    assert isinstance(told[0].value, DNSLookupError)
    reactor.full = False
    resolve(reactor, "git.example")
    reactor.end(0, [])
