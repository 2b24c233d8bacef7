"""What the sidecar tells the broker for the audit: few, small, and merged when they flood."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from attrs import define, evolve, field, frozen

BURST = 16
PER_SECOND = 1.0
_KINDS_PER_EVENT = 16
_LARGEST = 2048


class Event(Enum):
    PEER_REFUSED = "peer-refused"
    CREDENTIAL_GRANTED = "credential-granted"
    CREDENTIAL_REFUSED = "credential-refused"
    GIT_REFUSED = "git-refused"


@frozen
class Report:
    """`repo` is canonical or None: nothing the sandbox wrote freely goes in here."""

    event: Event
    uid: int | None = None
    repo: str | None = None
    code: str | None = None
    req: str | None = None


def format_report(report: Report) -> bytes:
    fields = {
        "event": report.event.value,
        "uid": report.uid,
        "repo": report.repo,
        "code": report.code,
        "req": report.req,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    data = json.dumps(known, separators=(",", ":")).encode("ascii")
    if len(data) > _LARGEST:
        raise ValueError("a report is made of short values")
    return data


Kinds = dict[Report, Report]


@define(eq=False)
class Reports:
    """Reports waiting to be sent: of one kind only the first waits, later ones add nothing.

    A kind is everything but the request id. Credit comes back with time, so a flood costs one
    report a second; events take turns, so that a flood of one does not hide another.
    """

    _now: Callable[[], float]
    _waiting: OrderedDict[Event, Kinds] = field(factory=OrderedDict, init=False)
    _credit: float = field(default=float(BURST), init=False)
    _counted: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._counted = self._now()

    def add(self, report: Report) -> bool:
        """False when it was merged with one that waits, or dropped."""
        kinds = self._waiting.setdefault(report.event, {})
        kind = evolve(report, req=None)
        if kind in kinds or len(kinds) >= _KINDS_PER_EVENT:
            return False
        kinds[kind] = report
        return True

    def take(self) -> Report | None:
        """The next one that may be sent now."""
        self._refill()
        if not self._waiting or self._credit < 1.0:
            return None
        self._credit -= 1.0
        event, kinds = self._waiting.popitem(last=False)
        report = kinds.pop(next(iter(kinds)))
        if kinds:
            self._waiting[event] = kinds
        return report

    def delay(self) -> float | None:
        """Seconds until `take` gives one; None when nothing waits."""
        self._refill()
        if not self._waiting:
            return None
        return max(0.0, (1.0 - self._credit) / PER_SECOND)

    def _refill(self) -> None:
        now = self._now()
        self._credit = min(float(BURST), self._credit + (now - self._counted) * PER_SECOND)
        self._counted = now
