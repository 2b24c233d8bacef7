"""Metrics are Prometheus text, with labels that cannot multiply."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from broker.api.metrics import Family, Metrics, Sample


def parsed(metrics: Metrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_what_was_decided_and_moved_is_counted() -> None:
    metrics = Metrics()
    metrics.decided("fetch", "helper", "allow", "")
    metrics.decided("fetch", "helper", "allow", "")
    metrics.decided("push", "untrusted", "deny", "G201")
    metrics.ended("fetch", "", 10, 20, 0.5)
    metrics.reported("H101", 900)
    metrics.upstream("up", 429)
    found = parsed(metrics)
    asked = {"op": "fetch", "tier": "helper", "decision": "allow", "code": ""}
    assert (asked, 2.0) in found["gitmoat_git_decisions_total"]
    assert ({"op": "fetch", "direction": "down"}, 20.0) in found["gitmoat_git_bytes_total"]
    assert ({"op": "fetch"}, 1.0) in found["gitmoat_git_seconds_count"]
    assert found["gitmoat_reported_refusals_total"] == [({"code": "H101"}, 900.0)]
    answers = found["gitmoat_upstream_answers_total"]
    assert answers == [({"upstream": "up", "class": "4xx"}, 1.0)]


def test_numbers_of_now_are_looked_up_when_asked() -> None:
    metrics, value = Metrics(), [1.0]
    metrics.watch(
        lambda: [Sample(Family("gitmoat_x", "X.", ("kind",), "gauge"), ((("a",), value[0]),))]
    )
    assert parsed(metrics)["gitmoat_x"] == [({"kind": "a"}, 1.0)]
    value[0] = 2.0
    assert parsed(metrics)["gitmoat_x"] == [({"kind": "a"}, 2.0)]
