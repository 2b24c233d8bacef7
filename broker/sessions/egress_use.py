"""What one session does outside: its budget, its octets, its tallies."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from gitmoat.limits.buckets import TokenBucket
from gitmoat.limits.quota import ByteQuota
from gitmoat.wire.hostname import Destination
from netpolicy.policy import Limits

MOST_PLACES = 256


@define
class Tally:
    count: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


@define(eq=False)
class EgressUse:
    limits: Limits
    running: int = field(default=0, init=False)
    _rate: TokenBucket = field(init=False)
    bytes: ByteQuota = field(init=False)
    _known: set[str] = field(factory=set, init=False)
    _tallies: dict[str, Tally] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._rate = TokenBucket.per_minute(self.limits.egress_per_minute)
        self.bytes = ByteQuota(self.limits.egress_max)

    def limit(self, limits: Limits) -> None:
        """Another policy: what was spent stays spent, what runs still counts."""
        self.limits = limits
        self._rate = TokenBucket.per_minute(limits.egress_per_minute)
        self.bytes.limit = limits.egress_max

    def enter(self, now: float) -> bool:
        """Whether one more may start; then `leave` must follow."""
        if self.running >= self.limits.egress_connections or self._rate.take(now):
            return False
        self.running += 1
        return True

    def leave(self) -> None:
        self.running -= 1

    @property
    def left(self) -> int:
        return self.bytes.left

    def is_recorded(self, to: Destination) -> bool:
        """Whether a connection there is on record; of very many places, the first are known."""
        return to.text in self._known

    def recorded(self, to: Destination) -> None:
        """Only once it is on record: what could not be recorded is asked for again."""
        if len(self._known) < MOST_PLACES:
            self._known.add(to.text)

    def add(self, to: Destination, up: int, down: int) -> None:
        place = to.text if to.text in self._tallies or len(self._tallies) < MOST_PLACES else "-"
        tally = self._tallies.setdefault(place, Tally())
        tally.count += 1
        tally.bytes_up += up
        tally.bytes_down += down

    def take(self) -> Iterator[tuple[str, Tally]]:
        """What was added since the last time."""
        tallies, self._tallies = self._tallies, {}
        yield from tallies.items()
