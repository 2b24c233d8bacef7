"""Which refusals get a record of their own, and how much one session has written in all. Pure.

A flood must not fill the journal: beyond a few, refusals are counted and written as one record
with their number. And the oldest records make room for new ones, so what one session can have
written is bounded: else a sandbox could have the records of the others removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import define, field

from gitmoat.limits.buckets import KeyedBuckets, TokenBucket

_EACH = TokenBucket(rate=0.5, burst=20)
_REFS = TokenBucket(rate=10, burst=4000)
FEW_REFS = 5
# What the records of a git request take, decision and outcome, with a name of usual length; and
# what a session may have written above that before it has to wait.
REQUEST_OCTETS = 1024
BURST_OCTETS = 16 << 20
_REF_OCTETS = 208  # besides its name: keys, two object ids of SHA-256, the hash of a cut name
_BUSY = frozenset({"G303", "B106", "U101", "U108", "U110"})


@define(eq=False)
class DenialLog:
    """Of one session. One record a minute says that it is over a rate; that needs no detail."""

    _per_minute: int = 120
    _octets: TokenBucket = field(init=False)
    _own: TokenBucket = field(factory=lambda: TokenBucket(_EACH.rate, _EACH.burst), init=False)
    _busy: KeyedBuckets = field(
        factory=lambda: KeyedBuckets(rate=1 / 60, burst=1, keys=len(_BUSY)), init=False
    )
    _refs: TokenBucket = field(factory=lambda: TokenBucket(_REFS.rate, _REFS.burst), init=False)
    _counted: Counter[str] = field(factory=Counter, init=False)

    def __attrs_post_init__(self) -> None:
        self.limit(self._per_minute)

    def limit(self, per_minute: int) -> None:
        """What a minute's git requests need, those of the gate too, is had in a minute."""
        requests = per_minute + per_minute // 4 + 1
        self._octets = TokenBucket(requests * REQUEST_OCTETS / 60, BURST_OCTETS)

    def wait(self, refs: Sequence[int], now: float) -> float:
        """0.0 when a record with names of so many octets was taken into account; else seconds."""
        octets = REQUEST_OCTETS + sum(refs) + _REF_OCTETS * len(refs)
        return self._octets.take(now, octets)

    def own_record(self, code: str, now: float) -> bool:
        """False when it was only counted."""
        wait = self._busy.take(code, now) if code in _BUSY else self._own.take(now)
        return self._recorded(code, bool(wait))

    def own_push_record(self, code: str, refs: Sequence[int], now: float) -> bool:
        """Of a push that was decided: always, but for what a session may have written in all."""
        return self._recorded(code, bool(self.wait(refs, now)))

    def _recorded(self, code: str, wait: bool) -> bool:
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
