"""hostd's handle of a process that it did not fork itself."""

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
    """A child of launcher or zygote. Its pidfd names it even when its pid is used again
    (pidfd_open(2))."""

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
        """Signals its process group, which it leads: a pidfd names one process only."""
        if self.status is None and alive(self.pidfd):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kills it alone, by its pidfd: its pid may mean another process by now."""
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
    """Waits for a process that neither launcher nor zygote reports.

    Its parent ended and hostd inherited it (PR_SET_CHILD_SUBREAPER(2const)); or an earlier hostd
    started it and init reaps it, so that its status is unknown here.
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
        """The reactor also calls this for every reader when hostd stops: the process may live."""
        if not alive(self.fileno()):
            self.doRead()


def alive(pidfd: int) -> bool:
    """A pidfd becomes readable when its process has ended (pidfd_open(2))."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return not poller.poll(0)
