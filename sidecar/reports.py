"""What the sidecar tells the broker for the audit: few, small, and merged when they flood."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from attrs import define, evolve, field, frozen

from limits.buckets import TokenBucket

BURST = 16
PER_SECOND = 1.0
_KINDS_PER_EVENT = 16
_LARGEST = 2048
_MOST = 10**9


class Event(Enum):
    PEER_REFUSED = "peer-refused"
    CREDENTIAL_GRANTED = "credential-granted"
    CREDENTIAL_REFUSED = "credential-refused"
    GIT_REFUSED = "git-refused"
    EGRESS_REFUSED = "egress-refused"


@frozen
class Report:
    """`repo` and `to` are canonical or None: nothing the sandbox wrote freely goes in here."""

    event: Event
    uid: int | None = None
    repo: str | None = None
    code: str | None = None
    req: str | None = None
    count: int = 1
    op: str | None = None
    to: str | None = None


def format_report(report: Report) -> bytes:
    fields = {
        "event": report.event.value,
        "uid": report.uid,
        "repo": report.repo,
        "code": report.code,
        "req": report.req,
        "count": report.count if report.count > 1 else None,
        "op": report.op,
        "to": report.to,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    data = json.dumps(known, separators=(",", ":")).encode("ascii")
    if len(data) > _LARGEST:
        raise ValueError("a report is made of short values")
    return data


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
        kinds[kind] = evolve(waiting or report, count=min(count, _MOST))
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
