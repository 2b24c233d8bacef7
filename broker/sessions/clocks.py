"""The wall clock, which is believed only forwards."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

from broker.sessions.store.interface import Store

# A clock that is disciplined is corrected by less than this.
_SLACK = 60


@define(eq=False)
class WallClock:
    """Remembers the latest time it saw, over restarts and reboots."""

    _store: Store
    _read: Callable[[], float] = time.time
    _highest: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._highest = self._store.highest_wall()

    def behind(self) -> int:
        """By how many seconds the clock is earlier than it was; 0 when it is not."""
        late = self._highest - int(self._read())
        return late if late > _SLACK else 0

    def now(self) -> int:
        """Never earlier than before."""
        return max(self._highest, int(self._read()))

    def keep(self) -> None:
        now = self.now()
        if now > self._highest:
            self._store.keep_wall(now)
            self._highest = now

    def accept(self) -> None:
        """The admin says that this time is right, and what was kept is not."""
        self._highest = int(self._read())
        self._store.keep_wall(self._highest)
