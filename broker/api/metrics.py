"""The Prometheus metrics of the broker.

Labels come from closed sets (operation, tier, verdict, code) and from the configuration (upstream):
nothing a sandbox says becomes one, and no sandbox or session has a series of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal, TypeVar

from attrs import define, field, frozen
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 900.0)


@frozen
class Family:
    """One name that is shown; docs/reference/metrics.md is made from these."""

    name: str
    about: str
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "histogram", "gauge"] = "counter"


DECISIONS = Family(
    "gitmoat_git_decisions", "Git requests decided.", ("op", "tier", "decision", "code")
)
BYTES = Family("gitmoat_git_bytes", "Bytes of git moved.", ("op", "direction"))
SECONDS = Family("gitmoat_git_seconds", "Time of git operations.", ("op",), "histogram")
ENDED = Family(
    "gitmoat_git_operations", "Allowed operations that ended; code empty: well.", ("op", "code")
)
REPORTED = Family("gitmoat_reported_refusals", "Refusals that sidecars told of.", ("code",))
ANSWERS = Family(
    "gitmoat_upstream_answers", "Answers of upstreams by class.", ("upstream", "class")
)
SESSIONS = Family("gitmoat_sessions", "Sessions by state.", ("state",), "gauge")
SLOWED = Family("gitmoat_sessions_slowed", "Sessions whose refusals are slowed down.", kind="gauge")
RUNNING = Family("gitmoat_operations_running", "Git operations under way.", kind="gauge")
WAITING = Family("gitmoat_operations_waiting", "Git operations that wait for a turn.", kind="gauge")
CONNECTIONS = Family("gitmoat_connections", "TLS connections of sidecars and hosts.", kind="gauge")
JOURNAL_WORKS = Family(
    "gitmoat_journal_working", "1 while the audit journal can be written.", kind="gauge"
)
JOURNAL_RECORDS = Family("gitmoat_journal_records", "Number of the last record.", kind="gauge")
UPSTREAM_OK = Family("gitmoat_upstream_ok", "1 unless it rests or fails.", ("upstream",), "gauge")
FAMILIES = (
    DECISIONS, BYTES, SECONDS, ENDED, REPORTED, ANSWERS, SESSIONS, SLOWED, RUNNING, WAITING,
    CONNECTIONS, JOURNAL_WORKS, JOURNAL_RECORDS, UPSTREAM_OK,
)  # fmt: skip


@frozen
class Sample:
    """Numbers of a gauge as they are now, each with the values of its labels."""

    family: Family
    values: tuple[tuple[tuple[str, ...], float], ...]


Look = Callable[[], Iterable[Sample]]
Kind = TypeVar("Kind", Counter, Histogram)


@define(eq=False)
class _Now(Collector):
    """Numbers that are looked up when somebody asks."""

    look: Look

    def collect(self) -> Iterable[Metric]:
        for sample in self.look():
            about = sample.family
            family = GaugeMetricFamily(about.name, about.about, labels=about.labels)
            for labels, value in sample.values:
                family.add_metric(labels, value)
            yield family


@define(eq=False)
class Metrics:
    _registry: CollectorRegistry = field(factory=CollectorRegistry, init=False)
    _decisions: Callable[..., Counter] = field(init=False)
    _bytes: Callable[..., Counter] = field(init=False)
    _seconds: Callable[..., Histogram] = field(init=False)
    _ended: Callable[..., Counter] = field(init=False)
    _reported: Callable[..., Counter] = field(init=False)
    _upstream: Callable[..., Counter] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._decisions, self._bytes = self._counter(DECISIONS), self._counter(BYTES)
        self._ended, self._reported = self._counter(ENDED), self._counter(REPORTED)
        self._upstream = self._counter(ANSWERS)
        seconds = (SECONDS.name, SECONDS.about, SECONDS.labels)
        self._seconds = _series(Histogram(*seconds, buckets=_SECONDS, registry=self._registry))

    def _counter(self, family: Family) -> Callable[..., Counter]:
        return _series(Counter(family.name, family.about, family.labels, registry=self._registry))

    def watch(self, look: Look) -> None:
        self._registry.register(_Now(look))

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def decided(self, op: str, tier: str, decision: str, code: str) -> None:
        self._decisions(op, tier, decision, code).inc()

    def ended(self, op: str, code: str, up: int, down: int, seconds: float) -> None:
        self._ended(op, code).inc()
        self._bytes(op, "up").inc(up)
        self._bytes(op, "down").inc(down)
        self._seconds(op).observe(seconds)

    def reported(self, code: str, count: int) -> None:
        self._reported(code).inc(count)

    def upstream(self, name: str, status: int) -> None:
        self._upstream(name, f"{status // 100}xx").inc()


def _series(family: Kind) -> Callable[..., Kind]:
    """The series of given labels. They are few, and looking one up takes longer than counting."""
    return cache(family.labels)
