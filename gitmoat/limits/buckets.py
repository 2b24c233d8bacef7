"""How often something may be asked: token buckets, and buckets for each of many keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from attrs import define, field

# Git asks in bursts: a look into the history of a partial clone is hundreds of requests, one after
# the other. They are had at once, and what comes behind them at the rate.
BURST_MINUTES = 5


@define(eq=False)
class TokenBucket:
    """Holds up to `burst` tokens and gains `rate` of them a second; full at first.

    `now` is any clock that does not jump; one that steps back neither fills nor empties it.
    """

    rate: float
    burst: float
    _tokens: float = field(init=False)
    _filled: float | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.rate <= 0 or self.burst < 1:
            raise ValueError("a bucket gains tokens and has room for one")
        self._tokens = float(self.burst)

    @classmethod
    def per_minute(cls, count: int, minutes: int = 1) -> TokenBucket:
        """So many minutes' worth at once, then evenly."""
        return cls(count / 60, count * minutes)

    def wait(self, now: float, amount: float = 1.0) -> float:
        """Seconds until `amount` could be taken; 0.0 when it could be now. Takes nothing."""
        filled, self._filled = self._filled, now
        if filled is not None and now > filled:
            self._tokens = min(float(self.burst), self._tokens + (now - filled) * self.rate)
        lacking = min(amount, self.burst) - self._tokens
        return lacking / self.rate if lacking > 0 else 0.0

    def take(self, now: float, amount: float = 1.0) -> float:
        """0.0 when it was taken; else the seconds to wait, and nothing was."""
        waiting = self.wait(now, amount)
        if not waiting:
            self.spend(amount)
        return waiting

    def spend(self, amount: float = 1.0) -> None:
        """Takes what `wait` has just said can be taken, or can be after so many seconds: who waits
        is refilled for first."""
        self._tokens -= amount

    def level(self, now: float) -> float:
        self.wait(now)
        return self._tokens


@define(eq=False)
class KeyedBuckets:
    """One bucket for each key, for at most `keys` of them: the one not used for longest goes.

    Forgetting a bucket fills it, so `keys` must be more than can be used up within its refill.
    """

    rate: float
    burst: float
    keys: int = 1024
    _buckets: OrderedDict[Hashable, TokenBucket] = field(factory=OrderedDict, init=False)

    def bucket(self, key: Hashable) -> TokenBucket:
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = TokenBucket(self.rate, self.burst)
            if len(self._buckets) > self.keys:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return found

    def take(self, key: Hashable, now: float, amount: float = 1.0) -> float:
        return self.bucket(key).take(now, amount)

    def __len__(self) -> int:
        return len(self._buckets)
