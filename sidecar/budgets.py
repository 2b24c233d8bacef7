"""What a sidecar may hold and do, so that a flood at one of its sockets leaves the others theirs.

Descriptors are shared by the whole process: what its listeners may hold (`gitmoat/listeners.py`),
the broker's connections and what the process has of its own stay below the number it may open
(`tests/unit/sidecar/test_budgets.py`), so that the untrusted uid can never take the last one from
the git gate.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from gitmoat.limits.brake import DenialBrake
from gitmoat.limits.buckets import BURST_MINUTES, TokenBucket
from gitmoat.messages.sidecar import MOST_DIALS, MOST_EGRESS
from netpolicy.policy import Limits
from sidecar.loop import Clock

# Links to the broker that connections to other hosts may hold at a time.
EGRESS_LINKS: Final = MOST_EGRESS
# Links to the broker, the control socket, the event loop and its log; the rest is never used.
OTHER_DESCRIPTORS: Final = MOST_DIALS + EGRESS_LINKS + 16
DESCRIPTORS: Final = 512

CREDENTIALS_PER_MINUTE: Final = 120


@define(eq=False)
class RequestRate:
    """Of one port. Never less than the broker lets through, which counts again.

    The first request of an operation is a GET, where git shows a refusal. A POST is left to the
    broker, which refuses it in words, until nobody can mean it any more.
    """

    _limits: Limits
    reserve: bool  # the git gate's quarter on top
    _opening: TokenBucket = field(init=False)
    _more: TokenBucket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.limit(self._limits)

    def limit(self, limits: Limits) -> None:
        """Those of the policy, or of another one."""
        count = limits.git_requests_per_minute
        count += max(1, count // 4) if self.reserve else 0
        # At the broker as many wait as may be under way: they have come, and do not count there.
        burst = count * BURST_MINUTES + limits.git_concurrency + limits.git_concurrency // 4 + 1
        self._opening, self._more = (TokenBucket(count / 60, burst) for _ in range(2))

    def wait(self, now: float, opens: bool) -> float:
        """0.0 when it may go on; else seconds to wait."""
        wait = self._opening.take(now)
        return wait if not wait or opens else self._more.take(now)


@frozen
class GitPace:
    """Of one git port: its rate of requests, and its number of refusals."""

    _clock: Clock
    rate: RequestRate
    denials: DenialBrake

    def limit(self, limits: Limits) -> None:
        """Those of another policy."""
        self.rate.limit(limits)
        self.denials.free = limits.free_refusals

    def verifying(self, seconds: int) -> None:
        self.denials.lift(self._clock.seconds(), seconds)

    def wait(self, opens: bool) -> float:
        return self.rate.wait(self._clock.seconds(), opens)

    def refused(self) -> float:
        return self.denials.refused(self._clock.seconds())


@define(eq=False)
class EgressPace:
    """Never slower than the broker, which counts again; but that need not say it a thousand times
    a second to a sandbox that asks as often."""

    _clock: Clock
    _limits: Limits
    _rate: TokenBucket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rate = TokenBucket.per_minute(self._limits.egress_per_minute)

    def limit(self, limits: Limits) -> None:
        """Those of another policy."""
        if limits.egress_per_minute != self._limits.egress_per_minute:
            self._rate = TokenBucket.per_minute(limits.egress_per_minute)
        self._limits = limits

    def wait(self, opens: bool) -> float:
        return self._rate.take(self._clock.seconds())

    def refused(self) -> float:
        return 0.0
