"""Twisted's loop over epoll(7), as both hops run it."""

import time
from functools import partial
from heapq import heappop
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger


class Epoll(EPollReactor):
    """Without a context of the log around every event: no line of ours says whose event it was.

    Twisted asks the wall clock; a step of it must not hold up or fire timers. While the
    host sleeps it goes on: a token's ten minutes are over then, too.
    """

    _log = Logger()
    seconds = staticmethod(partial(time.clock_gettime, time.CLOCK_BOOTTIME))

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def timeout(self) -> float | None:
        """Twisted wakes up for timers that were cancelled, too; who has no other sleeps on."""
        self._insertNewDelayedCalls()
        calls = self._pendingTimedCalls
        while calls and calls[0].cancelled:
            heappop(calls)
            self._cancellations -= 1
        return super().timeout()

    def doIteration(self, delay: float | None) -> None:
        act: Any = self._doReadOrWrite
        most = len(self._selectables)
        for fd, event in self._poller.poll(-1 if delay is None else delay, most):
            selectable = self._selectables.get(fd)
            if selectable is None:
                continue
            try:
                act(selectable, fd, event)
            except Exception:  # noqa: BLE001 - one connection's fault is not the end of the others
                self._log.failure("a connection's end failed")
