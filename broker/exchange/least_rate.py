"""A transfer whose client must keep up a least rate."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gitmoat.limits.quota import Pace
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.ends import Clock
from gitmoat.net.relay import Outcome, Relay
from gitmoat.net.timing import Timer, cancel

# How often a transfer's rate is looked at. A server that thinks for long sends next to nothing
# meanwhile; only what the client holds up is held against it.
_PACE_SECONDS = 30.0


@define(eq=False)
class Paced:
    """A relay that ends when its client only keeps it alive with a trickle."""

    _relay: Relay
    _clock: Clock
    _now: Callable[[], float]
    _pace: Pace
    _timer: Timer | None = field(default=None, init=False)

    def start(self) -> Deferred[Outcome]:
        self._look()
        return self._relay.start().addBoth(self._settled)

    def cut(self, why: Why) -> None:
        self._relay.cut(why)

    def _look(self) -> None:
        relay = self._relay
        moved = relay.bytes_up + relay.bytes_down
        if self._pace.look(self._now(), moved, owed=relay.waits_for_client):
            self._timer = self._clock.callLater(_PACE_SECONDS, self._look)
        else:
            relay.end(Why(Cause.SLOW))

    def _settled(self, outcome: Outcome | Failure) -> Outcome | Failure:
        cancel(self._timer)
        return outcome
