"""What we want to be, beside what others are: each target is a ratio in one run, or a bound.

`floor` has been reached by a prototype, so anything worse is a defect; `goal` is ahead of every
program that somebody would put in our place.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from bench.chains.nginx import FIRST_KEPT, NONE_KEPT
from bench.chains.way import DIRECT, OURS
from bench.figures import Book, Row, figure
from bench.neighbours import IDLE
from bench.parts.outcomes import OPERATIONS, row_of


class Verdict(Enum):
    GOAL = "goal met"
    FLOOR = "floor met"
    MISSED = "not met"
    UNKNOWN = "not measured"
    SHOWN = "no target"


@frozen
class Target:
    """`against` is a way whose value of the same row is the measure; without it the value is.

    `added` compares what two ways take longer than the direct one. `worst` looks at every way of
    the row but that one, and counts the one that is furthest off. Without bounds it is shown only.
    """

    row: str
    floor: float | None = None
    goal: float | None = None
    against: str = ""
    more: bool = False  # more is better
    added: bool = False
    worst: bool = False

    @property
    def title(self) -> str:
        over = f" / {self.against}" if self.against else ""
        kind = "added: " if self.added else "worst: " if self.worst else ""
        return f"{kind}{self.row}{over}"

    @property
    def bounds(self) -> str:
        if self.floor is None or self.goal is None:
            return "- | -"
        sign = "≥" if self.more else "≤"
        return f"{sign} {self.floor:g} | {sign} {self.goal:g}"

    def value(self, book: Book) -> float | None:
        row = book.rows.get(self.row)
        if row is not None and self.worst:
            return self._worst(row)
        if row is None or OURS not in row.values:
            return None
        if not self.against:
            return figure(row.values[OURS]).median
        if not self.added:
            return row.ratio(OURS, self.against)
        if not {DIRECT, self.against} <= row.values.keys():
            return None
        base = figure(row.values[DIRECT]).median
        other = figure(row.values[self.against]).median - base
        return (figure(row.values[OURS]).median - base) / other if other > 0 else None

    def _worst(self, row: Row) -> float | None:
        figures = row.figures()
        base = figures.pop(self.against).median if self.against in figures else None
        if not figures or (self.against and not base):
            return None
        found = [each.median / (base or 1.0) for each in figures.values()]
        return min(found) if self.more else max(found)

    def verdict(self, book: Book) -> Verdict:
        value = self.value(book)
        if value is None:
            return Verdict.UNKNOWN
        if self.floor is None or self.goal is None:
            return Verdict.SHOWN
        if self._reaches(value, self.goal):
            return Verdict.GOAL
        return Verdict.FLOOR if self._reaches(value, self.floor) else Verdict.MISSED

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.more else value <= bound


TARGETS = (
    Target("download", 0.90, 1.05, "nginx", more=True),
    Target("upload", 1.0, 1.25, "nginx", more=True),
    Target("download: CPU", 1.1, 0.9, "nginx"),
    Target("upload: CPU", 1.1, 0.9, "nginx"),
    Target("clone large pack", 1.10, 1.03, DIRECT),
    Target("clone many objects", 1.03, 1.0, DIRECT),
    Target("push", 1.20, 1.05, DIRECT),
    Target("ls-remote", 0.5, 0.35, DIRECT),
    Target("request p50", 0.9, 0.6, NONE_KEPT, added=True),
    Target("request p50", against=FIRST_KEPT, added=True),
    Target("request p50", against="nginx", added=True),
    Target("200 at a time", 1.1, 1.5, NONE_KEPT, more=True),
    Target("200 at a time", against=FIRST_KEPT, more=True),
    Target("200 at a time", against="nginx", more=True),
    Target("download: memory grown", 4.0, 1.0),
    Target("upload: memory grown", 4.0, 1.0),
    Target("slow reader: memory grown", 4.0, 1.0),
    Target("stalled upstream: memory grown", 4.0, 1.0),
    Target("N = 100: PSS of a sidecar", 11.0, 7.5),
    Target("sidecar: fork to TLS links", 20.0, 10.0),
    Target("credential helper", 18.0, 14.0),
    Target("credential helper: git credential-cache", 4.0, 4.0),
    Target("CONNECT, one hop", 0.95, 1.1, "squid", more=True),
    Target("DNS", 0.3, 0.6, "dnsmasq", more=True),
    Target("hostctl --help", 8.0, 4.0, "python"),
    *(Target(f"{row_of(each)}: failed", 0.0, 0.0, worst=True) for each in OPERATIONS),
    *(Target(row_of(each), 2.0, 2.0, IDLE, worst=True) for each in OPERATIONS),
    *(Target(f"{row_of(each)}: p99", 5.0, 5.0, IDLE, worst=True) for each in OPERATIONS),
)
