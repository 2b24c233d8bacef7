"""What the sidecar tells the broker for the audit: few, small, and merged when they flood."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from attrs import define, evolve, field

from gitmoat.limits.buckets import TokenBucket
from gitmoat.messages.report import MOST, Event, Report

BURST = 16
PER_SECOND = 1.0
_KINDS_PER_EVENT = 16


Kinds = dict[Report, Report]


@define(eq=False)
class Reports:
    """Reports waiting to be sent: those of one kind become one, with their number.

    A kind is everything but the request id. Credit comes back with time, so a flood costs one
    report a second; events take turns, so that a flood of one does not hide another.
    """

    _now: Callable[[], float]
    _waiting: OrderedDict[Event, Kinds] = field(factory=OrderedDict, init=False)
    _credit: TokenBucket = field(factory=lambda: TokenBucket(PER_SECOND, BURST), init=False)

    def add(self, report: Report) -> bool:
        """False when it was added to one that waits."""
        kinds = self._waiting.setdefault(report.event, {})
        kind = evolve(report, req=None, count=1)
        if kind not in kinds and len(kinds) >= _KINDS_PER_EVENT:
            # Too many kinds to keep apart: only how often, and with which code. There are few.
            kind = evolve(kind, uid=None, repo=None, to=None)
            report = evolve(kind, count=report.count)
        waiting = kinds.get(kind)
        count = report.count + (waiting.count if waiting is not None else 0)
        kinds[kind] = evolve(waiting or report, count=min(count, MOST))
        return waiting is None

    def take(self) -> Report | None:
        """The next one that may be sent now."""
        if not self._waiting or self._credit.take(self._now()):
            return None
        event, kinds = self._waiting.popitem(last=False)
        report = kinds.pop(next(iter(kinds)))
        if kinds:
            self._waiting[event] = kinds
        return report

    def delay(self) -> float | None:
        """Seconds until `take` gives one; None when nothing waits."""
        return self._credit.wait(self._now()) if self._waiting else None
