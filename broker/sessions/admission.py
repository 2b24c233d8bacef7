"""What all sessions together may ask of this broker, and whose turn it is. Knows no Twisted.

A host's own requests (grants, revocations, health) and the admin's are never counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import define, field

from broker.config.settings import BrokerLimits
from gitmoat.limits.shares import SharedBucket
from gitmoat.limits.slots import FairQueue, Slots

_WAITING_EACH = 64
_WAITING = 4096


@define(eq=False)
class Ticket:
    """One operation's place: waiting, then under way, then over."""

    owner: tuple[str, str]  # its sandbox
    go: Callable[[], None]
    running: bool = False


@define(eq=False)
class Admission:
    """Sandboxes that wait are served in turn, so a busy one cannot keep another from its turn."""

    _limits: BrokerLimits
    _everybody: SharedBucket = field(init=False)
    _hosts: dict[str, SharedBucket] = field(init=False, factory=dict)
    _slots: Slots = field(init=False)
    _queue: FairQueue[Ticket] = field(init=False)
    _serving: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        given = self._limits
        self._everybody = SharedBucket(given.requests_per_minute)
        half = (given.operations + 1) // 2  # nobody keeps the others from all of them
        self._slots = Slots(given.operations, each=half)
        self._queue = FairQueue(_WAITING_EACH, _WAITING)

    @property
    def running(self) -> int:
        return self._slots.used

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def wait(self, owner: tuple[str, str], now: float) -> int:
        """0 when this sandbox may ask one more request now, within its share of what its host,
        and all of them together, may."""
        buckets = self._of_host(owner[0]), self._everybody
        waiting = max(bucket.wait(owner, now) for bucket in buckets)
        if not waiting:
            for bucket in buckets:
                bucket.spend(owner, now)
        return ceil(waiting)

    def _of_host(self, host: str) -> SharedBucket:
        """There are as many as are enrolled."""
        found = self._hosts.get(host)
        if found is None:
            found = self._hosts[host] = SharedBucket(self._limits.host_requests_per_minute)
        return found

    def ask(self, ticket: Ticket) -> bool:
        """Calls `ticket.go` when it is its ticket, maybe before we return; False: no room to wait.

        Then `leave` must follow.
        """
        queued = self._queue.put(ticket.owner, ticket)
        if queued:
            self._serve()
        return queued

    def leave(self, ticket: Ticket) -> None:
        if ticket.running:
            ticket.running = False
            self._slots.leave(ticket.owner)
            self._serve()
        else:
            self._queue.remove(ticket.owner, ticket)

    def _serve(self) -> None:
        # `go` may end at once and leave: then the loop that runs goes on, not one inside it.
        if self._serving:
            return
        self._serving = True
        try:
            free, next_one = self._slots, self._queue.take
            while free.used < free.total and (ticket := next_one(free.room)):
                ticket.running = self._slots.enter(ticket.owner)
                ticket.go()
        finally:
            self._serving = False
