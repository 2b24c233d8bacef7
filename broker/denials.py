"""Which refusals get a record of their own. Pure.

A flood must not fill the journal: beyond a few, refusals are counted and written as one record
with their number. Decided pushes, grants and revocations never come here.
"""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from limits.buckets import KeyedBuckets, TokenBucket

_EACH = TokenBucket(rate=0.5, burst=20)
_REFS = TokenBucket(rate=10, burst=4000)
FEW_REFS = 5
_BUSY = frozenset({"G303", "B106", "U101", "U108", "U110"})


@define(eq=False)
class DenialLog:
    """Of one session. One record a minute says that it is over a rate; that needs no detail."""

    _own: TokenBucket = field(factory=lambda: TokenBucket(_EACH.rate, _EACH.burst), init=False)
    _busy: KeyedBuckets = field(
        factory=lambda: KeyedBuckets(rate=1 / 60, burst=1, keys=len(_BUSY)), init=False
    )
    _refs: TokenBucket = field(factory=lambda: TokenBucket(_REFS.rate, _REFS.burst), init=False)
    _counted: Counter[str] = field(factory=Counter, init=False)

    def own_record(self, code: str, now: float) -> bool:
        """False when it was only counted."""
        wait = self._busy.take(code, now) if code in _BUSY else self._own.take(now)
        if wait:
            self._counted[code] += 1
        return not wait

    def refs_shown(self, count: int, now: float) -> int:
        """How many refs of a refused push are written: all, unless a flood of them is on."""
        return count if count <= FEW_REFS or not self._refs.take(now, count) else FEW_REFS

    def summary(self) -> dict[str, int]:
        """How many of each code were counted since the last time."""
        counted, self._counted = dict(self._counted), Counter()
        return counted
