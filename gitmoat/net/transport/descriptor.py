"""A stream socket as a transport: read in large pieces, sent at once, queued only when it must be.

Twisted's own reads 64 KiB at a time, joins what is written and sends it a turn later.
"""

import socket
import struct
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from enum import Enum, auto
from itertools import islice
from time import thread_time
from typing import Any, Final

from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IHalfCloseableDescriptor,
    IHalfCloseableProtocol,
    IReadWriteDescriptor,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.transport.seqpacket import Reactor

# What one turn moves at most. Large enough that Python is asked rarely, small enough that others
# wait a millisecond.
READ: Final = 512 * 1024
FIRST: Final = 64 * 1024
LEAST: Final = 16 * 1024
# Seconds of this thread's own time, which no other process can lengthen. An ordinary turn takes
# one or two thousandths.
SLOW: Final = 0.01
_PIECES: Final = 64  # of one sendmsg(2), which takes 1024
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER (socket(7)): reset, and drop what is unsent


class ReadSize:
    """How much one turn reads of one peer: less, when what it sent takes long to digest.

    A peer chooses how finely it slices what it sends: half a mebibyte can be one piece of a pack or
    a hundred thousand pkt-lines, chunks or records. All others wait for the turn's
    end. Begins small, doubles while turns are short, falls when one is long.
    """

    def __init__(self) -> None:
        self.size = FIRST

    def took(self, count: int, seconds: float) -> None:
        """So many bytes were read and used in so many seconds."""
        if seconds > SLOW:
            self.size = max(LEAST, self.size // 4)
        elif count == self.size and seconds < SLOW / 4:
            self.size = min(READ, self.size * 2)


class Then(Enum):
    """What happens when all that was written is sent."""

    GO_ON = auto()
    HALF_CLOSE = auto()
    CLOSE = auto()


@implementer(IReadWriteDescriptor, IHalfCloseableDescriptor)
class Descriptor:
    """Owns `sock`. Speaks to `protocol` as Twisted's transports do, and is closed as they are.

    In place of their producers: it is `blocked` while anything is queued, so that a connection
    holds one piece at most, and tells `on_flow`, which belongs to the protocol, when that changes.
    The peer is not read while anybody has a reason to `hold` it.
    """

    def __init__(self, loop: Reactor, sock: socket.socket, protocol: Any) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.protocol = protocol
        self._loop = loop
        self._sock = sock
        self._queue: deque[memoryview] = deque()
        self._reasons: set[Hashable] = set()
        self.blocked = False
        self.on_flow: Callable[[], None] | None = None
        self._then = Then.GO_ON
        self._reading = False
        self._peer_ended = False
        self._broken = False
        self._gone = False
        self._read_size = ReadSize()

    def start(self) -> None:
        """Tell the protocol, then listen to the peer."""
        self._read_on()
        self.protocol.makeConnection(self)

    def detach(self) -> socket.socket:
        """Give the socket away; this transport is then nobody's."""
        self._gone = True
        self._stop()
        return self._sock

    @property
    def queued(self) -> int:
        return sum(map(len, self._queue))

    # What protocols ask

    def write(self, *pieces: bytes | memoryview) -> None:
        if self._open:
            self._send(pieces)

    @property
    def held(self) -> bool:
        return bool(self._reasons)

    def hold(self, reason: Hashable) -> None:
        """Read no more until every reason is released."""
        self._reasons.add(reason)
        self._read_no_more()

    def release(self, reason: Hashable) -> None:
        if reason in self._reasons:
            self._reasons.remove(reason)
            if not self._reasons:
                self._read_on()

    def release_all(self) -> None:
        if self._reasons:
            self._reasons.clear()
            self._read_on()

    def loseWriteConnection(self) -> None:
        """Send what is written, then our end; what the peer sends is read, so that it is not reset
        before it has read all."""
        if self._open:
            self.release_all()
            self._end(Then.HALF_CLOSE)

    def loseConnection(self) -> None:
        """Send what is written, then close; what the peer sends is not read any more."""
        if not self._gone and not self._broken and self._then is not Then.CLOSE:
            self._reasons.clear()
            self._read_no_more()
            self._end(Then.CLOSE)

    def abortConnection(self) -> None:
        """Close so that the peer cannot take it for an orderly end; nothing more is sent."""
        self._break(ConnectionAborted())

    def getHandle(self) -> Any:
        return None if self._gone else self._sock

    # What the reactor asks

    def fileno(self) -> int:
        return self._sock.fileno()

    def logPrefix(self) -> str:
        return type(self.protocol).__name__

    def doRead(self) -> Exception | None:
        try:
            data = self._sock.recv(self._read_size.size)
        except BlockingIOError:
            return None
        except OSError as error:
            return _lost(error)
        if not data:
            return ConnectionDone()
        began = thread_time()
        self.protocol.dataReceived(data)
        self._read_size.took(len(data), thread_time() - began)
        return None

    def doWrite(self) -> Exception | None:
        try:
            sent = self._sock.sendmsg(list(islice(self._queue, _PIECES)))
        except BlockingIOError:
            return None
        except OSError as error:
            return _lost(error)
        self._drop(sent)
        if self._queue:
            return None
        self._loop.removeWriter(self)
        return self._emptied()

    def readConnectionLost(self, reason: Failure) -> None:
        """The peer sends no more; it may still read."""
        self._peer_ended = True
        self._read_no_more()
        if IHalfCloseableProtocol.providedBy(self.protocol):
            self.protocol.readConnectionLost()
        else:
            self.connectionLost(reason)

    def writeConnectionLost(self, reason: Failure) -> None:
        """Twisted's reactors never call this, but it belongs to their interface."""
        self.connectionLost(reason)

    def connectionLost(self, reason: Failure) -> None:
        if self._gone:
            return
        self._gone = True
        self._stop()
        self._queue.clear()
        self.on_flow = None  # which knows us
        _close(self._sock, orderly=not reason.check(ConnectionAborted))
        self.protocol.connectionLost(reason)

    # Inside

    @property
    def _open(self) -> bool:
        """Whether what is written will be sent."""
        return not self._gone and not self._broken and self._then is Then.GO_ON

    def _send(self, pieces: Sequence[bytes | memoryview]) -> None:
        """At once as far as the kernel takes it; the rest waits.

        Of memory that somebody may write to again, a copy waits.
        """
        sent = 0
        if not self._queue:
            try:
                sent = self._sock.sendmsg(pieces)
            except BlockingIOError:
                pass
            except OSError as error:
                # The protocol is told a turn later: inside a call of its own it is not prepared to
                # be lost.
                self._break(_lost(error))
                return
            if sent == sum(map(len, pieces)):
                return
            self._loop.addWriter(self)
        for piece in pieces:
            rest = memoryview(piece)[sent:]
            sent = max(0, sent - len(piece))
            if rest:
                self._queue.append(rest if rest.readonly else memoryview(bytes(rest)))
        self._flow()

    def _drop(self, sent: int) -> None:
        while sent:
            first = self._queue[0]
            if sent < len(first):
                self._queue[0] = first[sent:]
                return
            sent -= len(first)
            self._queue.popleft()

    def _flow(self) -> None:
        """Once all is said there is nothing to hold back any more."""
        if self._open and self.blocked is not bool(self._queue):
            self.blocked = not self.blocked
            if self.on_flow is not None:
                self.on_flow()

    def _end(self, then: Then) -> None:
        self._then = then
        if not self._queue:
            self._loop.callLater(0, self._emptied_later)

    def _emptied_later(self) -> None:
        if not self._gone and not self._broken and not self._queue:
            reason = self._emptied()
            if reason is not None:
                self.connectionLost(Failure(reason))

    def _emptied(self) -> Exception | None:
        """All that was written is sent."""
        match self._then:
            case Then.GO_ON:
                self._flow()
                return None
            case Then.HALF_CLOSE:
                return self._half_close()
            case Then.CLOSE:
                return ConnectionDone()

    def _half_close(self) -> Exception | None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            return _lost(error)
        if IHalfCloseableProtocol.providedBy(self.protocol):
            self.protocol.writeConnectionLost()
        return None

    def _break(self, reason: Exception) -> None:
        """Nothing moves any more; the protocol hears of it in the next turn."""
        if not self._gone and not self._broken:
            self._broken = True
            self._stop()
            self._loop.callLater(0, self.connectionLost, Failure(reason))

    def _read_on(self) -> None:
        over = self._peer_ended or self._gone or self._broken or self._then is Then.CLOSE
        if not (self._reading or self._reasons or over):
            self._reading = True
            self._loop.addReader(self)

    def _read_no_more(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.removeReader(self)

    def _stop(self) -> None:
        self._read_no_more()
        self._loop.removeWriter(self)


def _lost(error: OSError) -> ConnectionLost:
    return ConnectionLost(error.strerror or "")


def _close(sock: socket.socket, orderly: bool) -> None:
    with suppress(OSError):
        if orderly:
            sock.shutdown(socket.SHUT_RDWR)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()
