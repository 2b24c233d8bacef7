"""One thing at a time for each sandbox, and the waiting for several ends at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList, DeferredLock
from twisted.python.failure import Failure


@define(eq=False)
class Turns:
    """In the order in which they came. Nobody waits for another key's, and an end for none."""

    _locks: dict[tuple[str, str], DeferredLock] = field(factory=dict, init=False)

    @asynccontextmanager
    async def of(self, key: tuple[str, str]) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, DeferredLock())
        await lock.acquire()
        try:
            yield
        finally:
            lock.release()  # whoever is next goes on in here, and may have come to an end
            if not lock.locked and self._locks.get(key) is lock:
                del self._locks[key]


def all_of(begun: Iterable[Deferred[None]]) -> Deferred[None]:
    """Fires when every one is over; fails as the first of them that failed."""
    done: Deferred[Any] = DeferredList(list(begun), consumeErrors=True)
    return done.addCallback(_first_failure)


def _first_failure(results: list[tuple[bool, Any]]) -> Failure | None:
    return next((result for succeeded, result in results if not succeeded), None)
