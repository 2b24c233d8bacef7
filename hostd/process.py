"""A child of launcher or zygote as hostd knows it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from zope.interface import implementer


@define(eq=False)
class Process:
    """A child of one of the two. The pidfd names it even after its pid is used again."""

    pid: int
    pidfd: int
    status: int | None = None
    _waiters: list[Deferred[int]] = field(factory=list)

    def wait(self) -> Deferred[int]:
        done: Deferred[int] = Deferred()
        if self.status is None:
            self._waiters.append(done)
        else:
            done.callback(self.status)
        return done

    def signal_session(self, number: int) -> None:
        """Also what it started: each command leads its own process group."""
        if self.status is None and alive(self.pidfd):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """It alone. By its pidfd: one that has ended, and whose pid is free again, stays ended."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def kill_session(self) -> None:
        self.signal_session(signal.SIGKILL)

    def ended(self, status: int) -> None:
        if self.status is not None:
            return
        self.status = status
        os.close(self.pidfd)
        self.pidfd = -1
        for waiter in self._waiters:
            waiter.callback(status)
        self._waiters.clear()


@implementer(IReadDescriptor)
class Watch:
    """Waits for a process that neither of the two reports on.

    Who forked it died, and hostd adopted it (PR_SET_CHILD_SUBREAPER); or an earlier hostd started
    it, and init reaps it: then its status is not ours to know.
    """

    def __init__(self, reactor: Any, process: Process) -> None:
        self._reactor = reactor
        self._process = process
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._process.pidfd

    def logPrefix(self) -> str:
        return "orphan"

    def doRead(self) -> None:
        self._reactor.removeReader(self)
        try:
            found = os.waitid(os.P_PIDFD, self.fileno(), os.WEXITED)
        except ChildProcessError:
            self._process.ended(-signal.SIGKILL)
            return
        status = found.si_status if found is not None else 0
        exited = found is not None and found.si_code == os.CLD_EXITED
        self._process.ended(status if exited else -status)

    def connectionLost(self, reason: object) -> None:
        """Also called for everything the reactor knows when hostd stops; that ends no process."""
        if not alive(self.fileno()):
            self.doRead()


def alive(pidfd: int) -> bool:
    """A pidfd becomes readable when its process has ended."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return not poller.poll(0)
