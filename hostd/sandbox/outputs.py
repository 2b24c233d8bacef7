"""What a detached command prints: hostd reads it from a FIFO into a log of bounded size.

The command has the FIFO open for reading as well, so that no write fails with EPIPE while hostd is
restarted (fifo(7)); the next hostd opens the FIFO again. hostd reads slowly, so that a command that
prints without end is blocked and does not keep hostd busy. The log has two parts; the older one is
deleted when both are full.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from hostd.sandbox.sandbox import Sandbox
from hostd.this_host import Host

_log = Logger()
PART_SIZE = 8 << 20
_READ_SIZE = 65536
_PAUSE = 0.01  # after each read: at most 6.5 MB/s
_PIPE_SIZE = 1 << 20  # /proc/sys/fs/pipe-max-size: an unprivileged owner cannot exceed it (pipe(7))


class BoundedLog:
    """A file and its predecessor; on a full disk output is lost, and hostd goes on."""

    def __init__(self, path: Path, part_size: int = PART_SIZE) -> None:
        self._path = path
        self._part_size = part_size
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size

    def write(self, data: bytes) -> None:
        try:
            if self._size and self._size + len(data) > self._part_size:
                self._begin_another()
            self._size += os.write(self._descriptor, data)
        except OSError as problem:
            _log.warn("output of a command is lost: {why}", why=str(problem))

    def close(self) -> None:
        os.close(self._descriptor)

    def _begin_another(self) -> None:
        self._path.replace(older_part(self._path))
        os.close(self._descriptor)
        self._descriptor = self._open()
        self._size = 0

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)


def older_part(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")


@implementer(IReadDescriptor)
class OutputReader:
    """Reads the FIFO until no process has it open for writing, or until `close`."""

    def __init__(self, reactor: Any, fifo: Path, log: Path) -> None:
        self._reactor = reactor
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(fifo, flags)
        self._log = BoundedLog(log)
        self._timer: Any = None
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._descriptor

    def logPrefix(self) -> str:
        return "output"

    def doRead(self) -> None:
        if not self._take():
            self._finish()
            return
        self._reactor.removeReader(self)
        self._timer = self._reactor.callLater(_PAUSE, self._go_on)

    def connectionLost(self, reason: object) -> None:
        """The reactor calls this on EPOLLHUP, when nothing is left to read (epoll_ctl(2))."""
        self._finish()

    def close(self) -> None:
        """Reads what is left in the FIFO: every process that could write has ended."""
        if self._descriptor >= 0:
            for _ in range(_PIPE_SIZE // _READ_SIZE):
                if not self._take():
                    break
            self._finish()

    def _go_on(self) -> None:
        self._timer = None
        self._reactor.addReader(self)

    def _take(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_SIZE)
        except BlockingIOError:
            return True
        self._log.write(data)
        return bool(data)

    def _finish(self) -> None:
        if self._descriptor < 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._reactor.removeReader(self)
        os.close(self._descriptor)
        self._descriptor = -1
        self._log.close()


def _fifo(host: Host, sandbox: Sandbox) -> Path:
    return host.registry.parent / sandbox.plan.id / "output"


@contextlib.contextmanager
def open_output(host: Host, sandbox: Sandbox) -> Iterator[int]:
    """A descriptor for the command to print to; open here until the command has its own."""
    fifo = _fifo(host, sandbox)
    os.mkfifo(fifo, 0o600)
    sink = os.open(fifo, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sandbox.output = OutputReader(host.reactor, fifo, host.paths.sandbox_log(sandbox.plan.id))
        yield sink
    finally:
        os.close(sink)


def resume_output(host: Host, sandbox: Sandbox) -> None:
    """After a restart of hostd, if a process still has the FIFO open (ENXIO if not: fifo(7))."""
    fifo = _fifo(host, sandbox)
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:  # there is no FIFO, or no process has it open for reading
        return
    sandbox.output = OutputReader(host.reactor, fifo, host.paths.sandbox_log(sandbox.plan.id))


def end_output(sandbox: Sandbox) -> None:
    if sandbox.output is not None:
        sandbox.output.close()
        sandbox.output = None


def remove_output(host: Host, identifier: str) -> None:
    log = host.paths.sandbox_log(identifier)
    for path in (log, older_part(log)):
        path.unlink(missing_ok=True)
