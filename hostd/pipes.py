"""What hostd gives to the programs it starts, and what they print, without blocking the daemon."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import abstract
from twisted.internet.defer import Deferred

_READ_SIZE = 65536


def file_of(data: bytes) -> int:
    """A descriptor to read these bytes from; in memory, no size limit of a pipe."""
    descriptor = os.memfd_create("gitmoat-input", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _Collector(abstract.FileDescriptor):
    """Owns the descriptor; fires with what came until EOF, the limit, or the wanted newline."""

    def __init__(self, reactor: Any, descriptor: int, limit: int, one_line: bool) -> None:
        super().__init__(reactor)
        self.connected = 1
        self._reactor = reactor
        self.done: Deferred[bytes] = Deferred(lambda _: self._finish())
        self._descriptor = descriptor
        self._limit = limit
        self._one_line = one_line
        self._pieces: list[bytes] = []
        self._size = 0
        os.set_blocking(descriptor, False)
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._descriptor

    def doRead(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:  # a pty whose last user went away says EIO, not EOF
            data = b""
        self._pieces.append(data)
        self._size += len(data)
        if not data or self._size > self._limit or (self._one_line and b"\n" in data):
            self._finish()

    def connectionLost(self, reason: Any) -> None:
        """epoll says EPOLLHUP, and the reactor calls this, when a pipe ends with nothing left."""
        self._finish()

    def _finish(self) -> None:
        if self._descriptor < 0:
            return
        self._reactor.removeReader(self)
        os.close(self._descriptor)
        self._descriptor = -1
        if not self.done.called:
            self.done.callback(b"".join(self._pieces)[: self._limit])


def collect(reactor: Any, descriptor: int, limit: int) -> Deferred[bytes]:
    """Everything up to EOF, at most `limit` bytes; then the pipe is closed."""
    return _Collector(reactor, descriptor, limit, one_line=False).done


def first_line(reactor: Any, descriptor: int, limit: int = 4096) -> Deferred[bytes]:
    """What came up to and with the first newline; b"" when the writer ended before."""
    return _Collector(reactor, descriptor, limit, one_line=True).done
