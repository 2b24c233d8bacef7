"""What the broker counts for whoever watches it, in the text format of Prometheus.

Labels come from closed sets (operation, tier, verdict, code) and from the configuration (upstream):
nothing a sandbox says becomes one, and no sandbox or session has a series of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field, frozen
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 900.0)


@frozen
class Sample:
    """One number as it is now; `labels` are values of `names`."""

    name: str
    help: str
    values: tuple[tuple[tuple[str, ...], float], ...]
    names: tuple[str, ...] = ()


Look = Callable[[], Iterable[Sample]]


@define(eq=False)
class _Now(Collector):
    """Numbers that are looked up when somebody asks."""

    look: Look

    def collect(self) -> Iterable[Metric]:
        for sample in self.look():
            family = GaugeMetricFamily(sample.name, sample.help, labels=sample.names)
            for labels, value in sample.values:
                family.add_metric(labels, value)
            yield family


@define(eq=False)
class Metrics:
    _registry: CollectorRegistry = field(factory=CollectorRegistry, init=False)
    _decisions: Counter = field(init=False)
    _bytes: Counter = field(init=False)
    _seconds: Histogram = field(init=False)
    _ended: Counter = field(init=False)
    _reported: Counter = field(init=False)
    _upstream: Counter = field(init=False)

    def __attrs_post_init__(self) -> None:
        registry = self._registry
        asked = ("op", "tier", "decision", "code")
        self._decisions = Counter(
            "gitmoat_git_decisions", "Git requests decided.", asked, registry=registry
        )
        self._bytes = Counter(
            "gitmoat_git_bytes", "Bytes of git moved.", ("op", "direction"), registry=registry
        )
        self._seconds = Histogram(
            "gitmoat_git_seconds", "Time of git operations.", ("op",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._ended = Counter(
            "gitmoat_git_operations", "Allowed operations that ended; code empty: well.",
            ("op", "code"), registry=registry,
        )  # fmt: skip
        self._reported = Counter(
            "gitmoat_reported_refusals", "Refusals that sidecars told of.", ("code",),
            registry=registry,
        )  # fmt: skip
        self._upstream = Counter(
            "gitmoat_upstream_answers", "Answers of upstreams by class.", ("upstream", "class"),
            registry=registry,
        )  # fmt: skip

    def watch(self, look: Look) -> None:
        self._registry.register(_Now(look))

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def decided(self, op: str, tier: str, decision: str, code: str) -> None:
        self._decisions.labels(op, tier, decision, code).inc()

    def ended(self, op: str, code: str, up: int, down: int, seconds: float) -> None:
        self._ended.labels(op, code).inc()
        self._bytes.labels(op, "up").inc(up)
        self._bytes.labels(op, "down").inc(down)
        self._seconds.labels(op).observe(seconds)

    def reported(self, code: str, count: int) -> None:
        self._reported.labels(code).inc(count)

    def upstream(self, name: str, status: int) -> None:
        self._upstream.labels(name, f"{status // 100}xx").inc()
