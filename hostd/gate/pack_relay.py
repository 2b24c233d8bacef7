"""Carries a pack stream from one process's pipe to another's, without reading it.

The kernel moves the pages (splice(2)), and hostd counts the octets. So a stream has a size limit
and a time limit without progress, and it ends when its sender ends, even if another process still
holds the sender's pipe open.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Callable
from enum import Enum
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor, IWriteDescriptor
from zope.interface import implementer

from hostd.deferreds import cancel

_PIECE = 1 << 20


class End(Enum):
    COMPLETE = "complete"
    TOO_LARGE = "too large"
    STALLED = "stalled"
    UNWANTED = "unwanted"  # the receiver left before the stream's end


@frozen
class Relayed:
    octets: int
    end: End

    def judged(self, satisfied: bool) -> Relayed:
        """A pack says where it ends: its reader may end, satisfied, before its writer does."""
        left = self.end is End.UNWANTED and satisfied
        return Relayed(self.octets, End.COMPLETE) if left else self


@implementer(IReadDescriptor, IWriteDescriptor)
class _Watched:
    """One end, while the relay waits for it."""

    def __init__(
        self, descriptor: int, ready: Callable[[], None], gone: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self.doRead = self.doWrite = ready
        self._gone = gone

    def fileno(self) -> int:
        return self._descriptor

    def logPrefix(self) -> str:
        return "relay"

    def connectionLost(self, reason: object) -> None:
        """epoll says EPOLLHUP or EPOLLERR, and the reactor calls this: the other end is closed."""
        self._gone()


@frozen
class Stalls:
    """Seconds without progress: while the sender writes nothing, while the receiver is full."""

    sender: float
    receiver: float


class Relay:
    """Owns both descriptors. It waits for one at a time: to read from one or write to the other."""

    def __init__(
        self, reactor: Any, source: int, sink: int, limit: int | None, stalls: Stalls
    ) -> None:
        self.done: Deferred[Relayed] = Deferred()
        self._reactor = reactor
        self._descriptors = (source, sink)
        self._limit = limit
        self._stalls = stalls
        self._stall = stalls.sender
        self._octets = 0
        self._last = False
        self._source = _Watched(source, self._readable, lambda: self._finish(End.COMPLETE))
        self._sink = _Watched(sink, self._writable, lambda: self._finish(End.UNWANTED))
        for descriptor in self._descriptors:
            os.set_blocking(descriptor, False)
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIECE)
        self._timer = reactor.callLater(self._stall, self._finish, End.STALLED)
        reactor.addReader(self._source)

    def sender_ended(self) -> None:
        """What it wrote is still carried; what another process writes later is not."""
        self._last = True
        if not self.done.called and self._waiting() == 0:
            self._finish(End.COMPLETE)

    def receiver_ended(self) -> None:
        self._finish(End.UNWANTED)

    def _readable(self) -> None:
        """If nothing moves although the source has data, the sink is full."""
        if not self._move():
            self._reactor.removeReader(self._source)
            self._reactor.addWriter(self._sink)
            self._wait(self._stalls.receiver)

    def _writable(self) -> None:
        """If nothing moves although the sink takes data, the source is empty."""
        if not self._move():
            self._reactor.removeWriter(self._sink)
            self._reactor.addReader(self._source)
            self._wait(self._stalls.sender)

    def _wait(self, stall: float) -> None:
        self._stall = stall
        self._timer.reset(stall)

    def _move(self) -> bool:
        source, sink = self._descriptors
        try:
            moved = os.splice(source, sink, self._piece(), flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._finish(End.UNWANTED)
            return True
        self._moved(moved)
        return True

    def _piece(self) -> int:
        """One octet more than allowed shows that there is more."""
        return _PIECE if self._limit is None else min(_PIECE, self._limit + 1 - self._octets)

    def _moved(self, octets: int) -> None:
        self._octets += octets
        if octets == 0:
            self._finish(End.COMPLETE)
        elif self._limit is not None and self._octets > self._limit:
            self._finish(End.TOO_LARGE)
        elif self._last and self._waiting() == 0:
            self._finish(End.COMPLETE)
        else:
            self._timer.reset(self._stall)

    def _waiting(self) -> int:
        answer = fcntl.ioctl(self._descriptors[0], termios.FIONREAD, bytes(4))
        octets: int = struct.unpack("i", answer)[0]
        return octets

    def _finish(self, end: End) -> None:
        if self.done.called:
            return
        cancel(self._timer)
        self._reactor.removeReader(self._source)
        self._reactor.removeWriter(self._sink)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self.done.callback(Relayed(self._octets, end))
