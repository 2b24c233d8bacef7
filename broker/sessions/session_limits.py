"""How much one session may ask for: requests a minute, and operations at the same time."""

from __future__ import annotations

from math import ceil

from attrs import define, field, frozen

from gitmoat.limits.buckets import BURST_MINUTES, TokenBucket
from gitmoat.limits.slots import Slots
from netpolicy.policy import Tier

# A client waits so long for its answer without giving up; Cargo gives up after 30 s.
LONGEST_WAIT = 15


@frozen
class Busy:
    """It may not start, nor wait for it here; it may come again after so many seconds."""

    seconds: int


@define(eq=False)
class Budget:
    """What the policy says for both tiers together, and a reserve on top for the git gate.

    Without the reserve, a command that uses git in a loop would leave its owner none.
    """

    per_minute: int
    concurrency: int
    _shared: TokenBucket = field(init=False)
    _reserve: TokenBucket = field(init=False)
    _slots: Slots = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._slots = Slots(2, reserved={Tier.HELPER: 1})
        self.limit(self.per_minute, self.concurrency)

    def limit(self, per_minute: int, concurrency: int) -> None:
        """Another policy: what runs still counts."""
        self.per_minute, self.concurrency = per_minute, concurrency
        self._shared = TokenBucket.per_minute(per_minute, BURST_MINUTES)
        self._reserve = TokenBucket.per_minute(max(1, per_minute // 4), BURST_MINUTES)
        kept = max(1, concurrency // 4)
        self._slots.total, self._slots.reserved = concurrency + kept, {Tier.HELPER: kept}

    @property
    def running(self) -> int:
        return self._slots.used

    def enter(self, tier: Tier, now: float) -> float | Busy:
        """Seconds after which the operation may start, 0.0 for at once; then `leave` must follow.

        One that waits holds its slot, so that no more wait than may run.
        """
        if not self._slots.enter(tier):
            return Busy(1)
        bucket, wait = self._shared, self._shared.wait(now)
        if wait and tier is Tier.HELPER:
            kept = self._reserve.wait(now)
            if kept < wait:
                bucket, wait = self._reserve, kept
        if wait > LONGEST_WAIT:
            self._slots.leave(tier)
            return Busy(ceil(wait))
        bucket.spend()
        return wait

    def leave(self, tier: Tier) -> None:
        self._slots.leave(tier)
