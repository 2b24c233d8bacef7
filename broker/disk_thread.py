"""Work that waits for a disk, in a thread of its own: one piece after the other."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

Work = Callable[[], None]


@define(eq=False)
class DiskThread:
    """The thread begins with the first piece of work, and ends with `close`.

    The reactor's own pool has many: two syncs of one journal would overtake each other there, and
    names that are looked up would wait for the disk. A pool of one thread takes twice as long to
    hand a piece of work on and to tell of it, 25 microseconds of each request more.
    """

    _reactor: Any
    _todo: SimpleQueue[tuple[Work, Deferred[None]] | None] = field(factory=SimpleQueue, init=False)
    _thread: Thread | None = field(default=None, init=False)

    def __call__(self, work: Work) -> Deferred[None]:
        """Fires in the reactor's thread, with what was raised if anything was."""
        if self._thread is None:
            # A disk that never answers does not keep a broker that has failed from ending.
            thread = Thread(target=self._run, name="disk", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the host has no thread to give
                return fail()
            self._thread = thread
        done: Deferred[None] = Deferred()
        self._todo.put((work, done))
        return done

    def close(self) -> None:
        """What was begun is done; nobody is told any more."""
        if self._thread is not None:
            self._todo.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            work, done = item
            try:
                work()
            except Exception:  # noqa: BLE001 - told to whoever waits for it, in the reactor's thread
                self._reactor.callFromThread(done.errback, Failure())
            else:
                self._reactor.callFromThread(done.callback, None)
