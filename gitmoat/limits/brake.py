"""Delays answers to an asker that is refused again and again, until it asks less."""

from __future__ import annotations

import math

from attrs import define, field

DELAY = 0.25
LONGEST = 5.0
FORGET = 30.0
# The longest that a verification lifts the brake, in case nobody sets it again.
LIFTED = 90
_MOST_OVER = 54.0


@define(eq=False)
class DenialBrake:
    """Counts refusals, halving the count every `FORGET` seconds; the first `free` are free."""

    free: int
    _count: float = field(init=False, default=0.0)
    _at: float | None = field(init=False, default=None)
    _lifted: float | None = field(init=False, default=None)
    total: int = field(init=False, default=0)

    def refused(self, now: float, times: int = 1) -> float:
        """One more; the seconds after which it should be answered."""
        self.total += times
        if self.lifted(now):
            return 0.0
        self._count = min(self.free + _MOST_OVER, self._level(now) + times)
        self._at = now
        return self.delay(now)

    def lift(self, now: float, seconds: float) -> None:
        """What is refused until then neither counts nor is slowed down; 0 sets it again."""
        self._lifted = now + min(seconds, LIFTED)

    def lifted(self, now: float, late: float = 0.0) -> bool:
        """`late`: or was, so many seconds before."""
        return self._lifted is not None and now < self._lifted + late

    def delay(self, now: float) -> float:
        over = self._level(now) - self.free
        return min(LONGEST, DELAY * over) if over > 0 and not self.lifted(now) else 0.0

    def holds(self, now: float) -> bool:
        return self.delay(now) > 0

    def _level(self, now: float) -> float:
        if self._at is None:
            return 0.0
        return self._count * math.exp2(-max(0.0, now - self._at) / FORGET)
