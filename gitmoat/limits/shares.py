"""A rate that many share: an asker that wants more than its share leaves the rest to others."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

from attrs import define, field

from gitmoat.limits.buckets import TokenBucket

_WINDOW = 60.0


@define(eq=False)
class _Use:
    """What one asker took, less what its share has given back since."""

    taken: float = 0.0
    at: float = -inf


@define(eq=False)
class SharedBucket:
    """`count` a minute, and for each asker a share of it.

    The upper half of the tokens is for whoever comes. The lower half is for those who are within
    their share: that of all who asked within the last minute, and of one more who may come. So
    one asker alone gets the whole rate, and whatever it does, the next one finds tokens.
    """

    count: int
    _all: TokenBucket = field(init=False)
    _uses: dict[Hashable, _Use] = field(factory=dict, init=False)
    _pruned: float = field(default=-inf, init=False)

    def __attrs_post_init__(self) -> None:
        self._all = TokenBucket.per_minute(self.count)

    def wait(self, asker: Hashable, now: float) -> float:
        """Seconds until this asker could take one; 0.0 when it could now. Takes nothing."""
        waiting = self._all.wait(now)
        short = self.count / 2 - self._all.level(now)
        if waiting or short < 0:
            return waiting
        until_upper = (short + 1) / self._all.rate
        return min(until_upper, self._over(asker, now))

    def spend(self, asker: Hashable, now: float) -> None:
        """Takes what `wait` has just said can be taken."""
        self._all.spend()
        self._prune(now)
        use = self._uses.setdefault(asker, _Use())
        use.taken, use.at = self._taken(use, now) + 1, now

    def take(self, asker: Hashable, now: float) -> float:
        """0.0 when it was taken; else the seconds to wait, and nothing was."""
        waiting = self.wait(asker, now)
        if not waiting:
            self.spend(asker, now)
        return waiting

    def level(self, now: float) -> float:
        return self._all.level(now)

    def __len__(self) -> int:
        return len(self._uses)

    @property
    def _share(self) -> float:
        return max(1.0, self.count / (len(self._uses) + 1))

    def _over(self, asker: Hashable, now: float) -> float:
        """Seconds until the asker is within its share again."""
        self._prune(now)
        use = self._uses.get(asker)
        if use is None:
            return 0.0
        above = self._taken(use, now) + 1 - self._share
        return max(0.0, above * _WINDOW / self._share)

    def _taken(self, use: _Use, now: float) -> float:
        return max(0.0, use.taken - max(0.0, now - use.at) * self._share / _WINDOW)

    def _prune(self, now: float) -> None:
        """An asker that has not asked for a minute has no share."""
        if now - self._pruned >= 1.0:
            self._pruned = now
            old = now - _WINDOW
            self._uses = {key: use for key, use in self._uses.items() if use.at > old}
