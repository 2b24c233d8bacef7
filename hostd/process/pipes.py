"""Input for the programs that hostd starts, and their output, read without blocking."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import abstract
from twisted.internet.defer import Deferred

_READ_SIZE = 65536


def file_of(data: bytes) -> int:
    """A descriptor to read these bytes from: memfd_create(2), which has no pipe's size limit."""
    descriptor = os.memfd_create("gitmoat-input", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _Collector(abstract.FileDescriptor):
    """Owns the descriptor; fires with what was read up to EOF, the limit, or the first newline."""

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
        except OSError:  # the master of a pty gives EIO, not EOF, when the slave is closed
            data = b""
        self._pieces.append(data)
        self._size += len(data)
        if not data or self._size > self._limit or (self._one_line and b"\n" in data):
            self._finish()

    def connectionLost(self, reason: Any) -> None:
        """The reactor calls this on EPOLLHUP, when nothing is left to read (epoll_ctl(2))."""
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
    """Everything up to and with the first newline; b"" if the writer ended before."""
    return _Collector(reactor, descriptor, limit, one_line=True).done
