"""Who hammers at refused things is answered later and later, until it lets off."""

from __future__ import annotations

import math

from attrs import define, field

FREE = 10
DELAY = 0.25
LONGEST = 5.0
FORGET = 30.0
_HIGHEST = 64.0


@define(eq=False)
class DenialBrake:
    """Counts refusals, halving the count every `FORGET` seconds; the first ones are free."""

    _count: float = field(init=False, default=0.0)
    _at: float | None = field(init=False, default=None)
    total: int = field(init=False, default=0)

    def refused(self, now: float, times: int = 1) -> float:
        """One more; the seconds after which it should be answered."""
        self._count = min(_HIGHEST, self._level(now) + times)
        self._at = now
        self.total += times
        return self.delay(now)

    def delay(self, now: float) -> float:
        over = self._level(now) - FREE
        return min(LONGEST, DELAY * over) if over > 0 else 0.0

    def holds(self, now: float) -> bool:
        return self.delay(now) > 0

    def _level(self, now: float) -> float:
        if self._at is None:
            return 0.0
        return self._count * math.exp2(-max(0.0, now - self._at) / FORGET)
