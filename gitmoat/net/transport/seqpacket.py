"""Sequenced-packet Unix sockets with descriptor passing, which Twisted has no transport for."""

import array
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from attrs import frozen
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.timing import Clock

MAX_MESSAGE: Final = 64 * 1024
MAX_QUEUE: Final = 64

_FLAGS: Final = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
_SEND_FLAGS: Final = socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
_FD: Final = array.array("i").itemsize
# Room for more descriptors than anybody expects, so that we get them all and can close them: those
# that find no room are closed by the kernel, which sets MSG_CTRUNC (unix(7)).
_ANCILLARY: Final = socket.CMSG_SPACE(64 * _FD)
_CUT: Final = socket.MSG_CTRUNC | socket.MSG_TRUNC
_BATCH: Final = 16


class Reactor(Clock, Protocol):
    """What we ask of a reactor besides its clock."""

    def addReader(self, reader: Any, /) -> object: ...
    def removeReader(self, reader: Any, /) -> object: ...
    def addWriter(self, writer: Any, /) -> object: ...
    def removeWriter(self, writer: Any, /) -> object: ...


@frozen
class _Message:
    """A message that waits; its descriptors are our own copies."""

    data: bytes
    fds: tuple[int, ...]


@implementer(IReadWriteDescriptor)
class SeqpacketConnection:
    """Owns `sock`. `on_message` owns the descriptors it is given, of which there are at most
    `max_fds`; any more are closed. A message that was cut short ends the connection.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        on_message: Callable[[bytes, list[int]], None],
        on_lost: Callable[[], None],
        max_fds: int = 1,
        max_message: int = MAX_MESSAGE,
        max_queue: int = MAX_QUEUE,
    ) -> None:
        sock.setblocking(False)
        self._reactor = reactor
        self._sock = sock
        self._on_message = on_message
        self._on_lost = on_lost
        self._max_fds = max_fds
        self._max_message = max_message
        self._max_queue = max_queue
        self._queue: deque[_Message] = deque()
        self._open = True
        reactor.addReader(self)

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send one message; the caller keeps its descriptors and may close them at once."""
        if not data:
            raise ValueError("an empty message would read as the end")  # recv(2)
        if not self._open:
            return
        if not self._queue and self._sent(data, fds):
            return
        if self._open and len(self._queue) < self._max_queue:
            self._queue.append(_Message(data, _copies(fds)))
            self._reactor.addWriter(self)
        elif self._open:
            self._drop("peer does not read")

    def close(self) -> None:
        """Close; `on_lost` is not called."""
        if not self._open:
            return
        self._open = False
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        while self._queue:
            _close_all(self._queue.popleft().fds)
        self._sock.close()

    # The reactor's callbacks

    def fileno(self) -> int:
        return self._sock.fileno()

    def logPrefix(self) -> str:
        return "seqpacket"

    def connectionLost(self, reason: Failure) -> None:
        self._lose()

    def doRead(self) -> None:
        for _ in range(_BATCH):
            if not self._open or not self._receive():
                return

    def doWrite(self) -> None:
        while self._open and self._queue:
            message = self._queue.popleft()
            if not self._sent(message.data, message.fds):
                self._queue.appendleft(message)
                return
            _close_all(message.fds)
        if self._open:
            self._reactor.removeWriter(self)

    def _receive(self) -> bool:
        """Whether there may be another message."""
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(self._max_message, _ANCILLARY, _FLAGS)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._lose()
            return False
        fds = _descriptors(ancillary)
        if flags & _CUT or (not data and fds):
            _close_all(fds)
            self._drop("message was cut short")
            return False
        if not data:
            self._lose()
            return False
        _close_all(fds[self._max_fds :])
        self._on_message(data, fds[: self._max_fds])
        return True

    def _sent(self, data: bytes, fds: Sequence[int]) -> bool:
        """True when gone or the connection is; False when it must wait."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._sock.sendmsg([data], rights, _SEND_FLAGS)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._drop(errno.errorcode.get(error.errno or 0, "send failed"))
        return True

    def _drop(self, why: str) -> None:
        self._log.warn("control connection dropped: {why}", why=why)
        self._lose()

    def _lose(self) -> None:
        if self._open:
            self.close()
            self._on_lost()


def _descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % _FD])
    return list(fds)


def _copies(fds: Sequence[int]) -> tuple[int, ...]:
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))  # noqa: PERF401
    except OSError:
        _close_all(copies)
        raise
    return tuple(copies)


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass
