"""Connecting: the first address that answers, within the time, and no socket left behind."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

import pytest
from twisted.internet.address import IPv4Address as IPv4Place
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError, ConnectionRefusedError, TimeoutError

from streams.dialling import connect, resolve
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


class Silent:
    """A reactor whose resolver keeps its questions."""

    def __init__(self) -> None:
        self.nameResolver = self
        self.asked: list[tuple[Any, str]] = []

    def resolveHostName(self, receiver: Any, host: str) -> None:
        self.asked.append((receiver, host))


def test_a_name_is_looked_up_once_at_a_time_however_many_ask() -> None:
    reactor = Silent()
    found: list[Any] = []
    waiting = [resolve(reactor, "slow.example") for _ in range(50)]
    resolve(reactor, "other.example").addCallback(found.append)
    assert [host for _, host in reactor.asked] == ["slow.example", "other.example"]
    waiting[0].addErrback(lambda gone: None)
    waiting[0].cancel()
    for each in waiting[1:]:
        each.addCallback(found.append)
    receiver, _ = reactor.asked[0]
    receiver.addressResolved(IPv4Place("TCP", "192.0.2.1", 0))
    receiver.resolutionComplete()
    assert found == [[IPv4Address("192.0.2.1")]] * 49
    reactor.asked[1][0].resolutionComplete()
    assert found[-1] == []
    resolve(reactor, "slow.example")
    assert len(reactor.asked) == 3
    reactor.asked[2][0].resolutionComplete()
