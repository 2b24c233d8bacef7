"""Work that waits for a disk, in a thread of its own: one piece after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool


class DiskThread:
    """The thread begins with the first piece of work, and ends with `close`.

    The reactor's own pool has many: two syncs of one journal would overtake each other there, and
    names that are looked up would wait for the disk.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(minthreads=0, maxthreads=1, name="disk")
        # A disk that never answers does not keep a broker that has failed from ending.
        self._pool.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]
        self._pool.start()

    def __call__(self, work: Callable[[], None]) -> Deferred[None]:
        """Fires in the reactor's thread, with what was raised if anything was."""
        # Where no thread can be had, the pool raises.
        return maybeDeferred(deferToThreadPool, self._reactor, self._pool, work)

    def close(self) -> None:
        """What was begun is done; nobody is told any more."""
        # The pool also lists a thread that could not be started, and one of these cannot be joined.
        self._pool.threads[:] = [each for each in self._pool.threads if each.ident is not None]
        self._pool.stop()
