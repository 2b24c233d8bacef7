"""How much one session may ask for: requests a minute, and operations at the same time."""

from __future__ import annotations

from math import ceil

from attrs import define, field

from gitmoat.limits.buckets import TokenBucket
from gitmoat.limits.slots import Slots
from netpolicy.policy import Tier


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
        self._shared = TokenBucket.per_minute(per_minute)
        self._reserve = TokenBucket.per_minute(max(1, per_minute // 4))
        kept = max(1, concurrency // 4)
        self._slots.total, self._slots.reserved = concurrency + kept, {Tier.HELPER: kept}

    @property
    def running(self) -> int:
        return self._slots.used

    def enter(self, tier: Tier, now: float) -> int:
        """0 when the operation may start (then `leave` must follow), else seconds to wait."""
        if not self._slots.enter(tier):
            return 1
        wait = self._shared.take(now)
        if wait and tier is Tier.HELPER:
            wait = self._reserve.take(now)
        if wait:
            self._slots.leave(tier)
        return ceil(wait)

    def leave(self, tier: Tier) -> None:
        self._slots.leave(tier)
