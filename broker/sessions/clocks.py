"""The wall clock, which is believed only forwards."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import DeferredLock

from broker.sessions.store.interface import Store

# A clock that is disciplined is corrected by less than this.
_SLACK = 60


@define(eq=False)
class WallClock:
    """Remembers the latest time it saw, over restarts and reboots."""

    _store: Store
    _highest: int  # as the store has it
    _read: Callable[[], float] = time.time
    _writing: DeferredLock = field(factory=DeferredLock, init=False)

    def behind(self) -> int:
        """By how many seconds the clock is earlier than it was; 0 when it is not."""
        late = self._highest - int(self._read())
        return late if late > _SLACK else 0

    def now(self) -> int:
        """Never earlier than before."""
        return max(self._highest, int(self._read()))

    async def keep(self) -> None:
        async with self._writing:
            now = self.now()
            if now > self._highest:
                await self._store.keep_wall(now)
                self._highest = now

    async def accept(self) -> None:
        """The admin says that this time is right, and what was kept is not."""
        async with self._writing:
            self._highest = int(self._read())
            await self._store.keep_wall(self._highest)
