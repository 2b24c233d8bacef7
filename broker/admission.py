"""What all sessions together may ask of this broker, and whose turn it is. Knows no Twisted.

A host's own requests (grants, revocations, health) and the admin's are never counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import define, field

from broker.settings import BrokerLimits
from limits.buckets import KeyedBuckets, TokenBucket, take_from_all
from limits.slots import FairQueue, Slots

_WAITING_EACH = 64
_WAITING = 4096


@define(eq=False)
class Turn:
    """One operation's place: waiting, then under way, then over."""

    asker: str
    go: Callable[[], None]
    running: bool = False


@define(eq=False)
class Admission:
    """Sessions that wait are served in turn, so a busy one cannot keep another from its turn."""

    _limits: BrokerLimits
    _everybody: TokenBucket = field(init=False)
    _hosts: KeyedBuckets = field(init=False)
    _slots: Slots = field(init=False)
    _queue: FairQueue[Turn] = field(init=False)
    _serving: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        given = self._limits
        self._everybody = TokenBucket.per_minute(given.requests_per_minute)
        each = given.host_requests_per_minute
        self._hosts = KeyedBuckets(each / 60, each)
        self._slots = Slots(given.operations)
        self._queue = FairQueue(_WAITING_EACH, _WAITING)

    @property
    def running(self) -> int:
        return self._slots.used

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def wait(self, host: str, now: float) -> int:
        """0 when this host, and all of them together, may ask one more request now."""
        return ceil(take_from_all([self._hosts.bucket(host), self._everybody], now))

    def ask(self, turn: Turn) -> bool:
        """Calls `turn.go` when it is its turn, maybe before we return; False: no room to wait.

        Then `leave` must follow.
        """
        queued = self._queue.put(turn.asker, turn)
        if queued:
            self._serve()
        return queued

    def leave(self, turn: Turn) -> None:
        if turn.running:
            turn.running = False
            self._slots.leave(turn.asker)
            self._serve()
        else:
            self._queue.remove(turn.asker, turn)

    def _serve(self) -> None:
        # `go` may end at once and leave: then the loop that runs goes on, not one inside it.
        if self._serving:
            return
        self._serving = True
        try:
            while self._slots.used < self._slots.total and (turn := self._queue.take()):
                turn.running = self._slots.enter(turn.asker)
                turn.go()
        finally:
            self._serving = False
