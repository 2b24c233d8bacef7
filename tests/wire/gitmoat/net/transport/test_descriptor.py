"""Our own transport: nothing lost, nothing reordered, nothing told at the wrong time."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.transport.descriptor import READ, Descriptor
from tests.fakes.hand_loop import HandLoop, close_all, small_pair, tcp_pair
from tests.waiting import PATIENCE

LARGE = bytes(range(256)) * 16384


@implementer(IHalfCloseableProtocol)
class Notes(Protocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard = b""
        self.told: list[str] = []
        self.largest = 0

    def connectionMade(self) -> None:
        self.told.append("made")

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        self.largest = max(self.largest, len(data))

    def readConnectionLost(self) -> None:
        self.told.append("peer ended")

    def writeConnectionLost(self) -> None:
        self.told.append("we ended")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.told.append(type(reason.value).__name__)


def flows_of(transport: Any) -> list[bool]:
    """What it tells of its being blocked."""
    told: list[bool] = []
    transport.on_flow = lambda: told.append(transport.blocked)
    return told


@pytest.fixture(autouse=True)
def _sockets() -> Iterator[None]:
    yield
    close_all()


def connected(tcp: bool = False) -> tuple[HandLoop, Any, Notes, socket.socket]:
    loop, notes = HandLoop(), Notes()
    near, far = tcp_pair() if tcp else small_pair()
    far.setblocking(False)
    return loop, loop.connect(notes, near), notes, far


def read_all(loop: HandLoop, far: socket.socket) -> bytes:
    """Until nothing comes any more, or the end."""
    got: list[bytes] = []
    while True:
        loop.settle()
        try:
            piece = far.recv(1 << 20)
        except BlockingIOError:
            return b"".join(got)
        if not piece:
            return b"".join([*got, b"(end)"])
        got.append(piece)


def test_small_writes_leave_at_once() -> None:
    _, transport, _, far = connected()
    transport.write(b"one ", b"", b"two")
    assert far.recv(100) == b"one two"
    assert transport.queued == 0


def test_what_the_kernel_does_not_take_waits_and_keeps_its_order() -> None:
    loop, transport, _, far = connected()
    flows = flows_of(transport)
    transport.write(LARGE)
    transport.write(b"behind ", b"it")
    assert flows == [True] and transport.queued
    assert read_all(loop, far) == LARGE + b"behind it"
    assert flows == [True, False] and not transport.queued


def test_what_waits_is_copied_only_where_somebody_may_write() -> None:
    loop, transport, _, far = connected()
    lent = bytearray(b"mine until it was written")
    transport.write(memoryview(LARGE), memoryview(lent))
    lent[:] = bytes(len(lent))
    kept = [piece.obj for piece in transport._queue]
    assert kept == [LARGE, b"mine until it was written"] and kept[0] is LARGE
    assert read_all(loop, far) == LARGE + b"mine until it was written"


def test_nobody_is_held_back_for_what_is_written_last() -> None:
    loop, transport, _, far = connected()
    flows = flows_of(transport)
    transport.write(LARGE)
    transport.loseWriteConnection()
    assert read_all(loop, far) == LARGE + b"(end)"
    assert flows == [True]


def test_reading_goes_on_only_when_the_last_reason_has_gone() -> None:
    loop, transport, notes, far = connected()
    far.send(b"hello")
    for reason in ("one", "two", "one"):
        transport.hold(reason)
    for reason in ("one", "one", "three"):
        transport.release(reason)
    loop.settle()
    assert notes.heard == b"" and transport.held
    transport.release("two")
    loop.settle()
    assert notes.heard == b"hello" and not transport.held


def test_reading_is_not_resumed_behind_the_peers_end() -> None:
    loop, transport, notes, far = connected()
    far.shutdown(socket.SHUT_WR)
    loop.settle()
    transport.hold("one")
    transport.release("one")
    assert not loop.readers and notes.told == ["made", "peer ended"]


def test_whoever_says_the_last_word_hears_the_peer_again() -> None:
    loop, transport, notes, far = connected()
    transport.hold("one")
    far.send(b"hello")
    transport.loseWriteConnection()
    transport.write(b"late")
    loop.settle()
    assert notes.heard == b"hello" and not transport.held
    assert far.recv(10) == b""


def test_what_is_lost_is_left_alone() -> None:
    loop, transport, notes, far = connected()
    far.close()
    transport.abortConnection()
    loop.settle()
    told = list(notes.told)
    transport.hold("one")
    transport.release("one")
    transport.write(b"x")
    transport.loseWriteConnection()
    transport.loseConnection()
    transport.abortConnection()
    loop.settle()
    assert notes.told == told and not loop.readers and loop.getDelayedCalls() == []


def test_closing_sends_what_is_written_first() -> None:
    loop, transport, notes, far = connected()
    transport.write(LARGE)
    transport.loseConnection()
    transport.write(b"too late")
    assert notes.told == ["made"]
    assert read_all(loop, far) == LARGE + b"(end)"
    assert notes.told == ["made", ConnectionDone.__name__]
    assert not loop.readers and not loop.writers


def test_closing_is_never_told_inside_the_call() -> None:
    loop, transport, notes, _ = connected()
    transport.loseConnection()
    assert notes.told == ["made"]
    loop.settle()
    assert notes.told == ["made", ConnectionDone.__name__]


def test_failed_write_is_told_in_the_next_turn_and_once() -> None:
    loop, transport, notes, far = connected()
    flows = flows_of(transport)
    far.close()
    transport.write(b"to nobody")
    transport.write(b"again")
    transport.loseConnection()
    assert notes.told == ["made"]
    loop.settle()
    assert notes.told == ["made", ConnectionLost.__name__]
    assert flows == [] and transport.on_flow is None


def test_abort_resets_and_drops_what_waits() -> None:
    loop, transport, notes, far = connected(tcp=True)
    transport.write(LARGE * 16)
    transport.abortConnection()
    transport.abortConnection()
    loop.settle()
    assert notes.told == ["made", ConnectionAborted.__name__]
    with pytest.raises(ConnectionResetError):
        while far.recv(1 << 20):
            pass


def test_each_half_ends_by_itself() -> None:
    loop, transport, notes, far = connected()
    transport.write(LARGE)
    transport.loseWriteConnection()
    assert read_all(loop, far) == LARGE + b"(end)"
    far.send(b"still here")
    loop.settle()
    far.shutdown(socket.SHUT_WR)
    loop.settle()
    assert notes.heard == b"still here"
    assert notes.told == ["made", "we ended", "peer ended"]
    transport.loseConnection()
    loop.settle()
    assert notes.told[3:] == [ConnectionDone.__name__]


def test_held_transport_reads_nothing() -> None:
    loop, transport, notes, far = connected()
    transport.hold("us")
    far.send(b"hello")
    loop.settle()
    assert notes.heard == b""
    transport.release("us")
    loop.settle()
    assert notes.heard == b"hello"


def test_reading_goes_on_behind_our_own_end() -> None:
    loop, transport, notes, far = connected()
    transport.loseWriteConnection()
    loop.settle()
    transport.hold("us")
    far.send(b"hello")
    loop.settle()
    assert notes.heard == b""
    transport.release("us")
    loop.settle()
    assert notes.heard == b"hello"


def test_one_turn_reads_a_large_piece_and_no_more() -> None:
    loop, _, notes, far = connected(tcp=True)
    far.setblocking(True)
    far.settimeout(PATIENCE)
    sent = 0
    while sent < len(LARGE):
        sent += far.send(LARGE[sent:])
        loop.settle()
    assert notes.heard == LARGE
    assert 16 * 1024 < notes.largest <= READ


def test_socket_that_was_given_away_is_left_alone() -> None:
    loop, transport, notes, far = connected()
    sock = transport.detach()
    transport.write(b"not this")
    transport.abortConnection()
    loop.settle()
    far.send(b"for the next one")
    assert sock.recv(100) == b"for the next one"
    assert notes.told == ["made"] and isinstance(transport, Descriptor)
