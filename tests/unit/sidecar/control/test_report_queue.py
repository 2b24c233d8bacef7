from __future__ import annotations

import json

import pytest

from broker.api.reported import recorded
from gitmoat.messages.report import Event, Report, format_report, parse_report
from sidecar.control.report_queue import BURST, Reports


class Time:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def taken(reports: Reports) -> list[Report]:
    found = []
    while (report := reports.take()) is not None:
        found.append(report)
    return found


def refused(uid: int) -> Report:
    return Report(event=Event.PEER_REFUSED, uid=uid, code="H101")


def test_a_single_report_may_go_at_once() -> None:
    reports = Reports(Time())
    report = refused(1)
    assert reports.add(report)
    assert reports.delay() == 0
    assert reports.take() == report
    assert reports.delay() is None


def test_reports_of_one_kind_are_merged_while_they_wait() -> None:
    reports = Reports(Time())
    for number in range(1000):
        reports.add(Report(event=Event.GIT_REFUSED, repo="h/a", code="G101", req=f"{number:016x}"))
    assert [(report.req, report.count) for report in taken(reports)] == [("0" * 16, 1000)]


def test_a_flood_costs_one_report_a_second_after_the_burst() -> None:
    time = Time()
    reports = Reports(time)
    sent = 0
    for _ in range(100_000):
        reports.add(refused(1))
        sent += len(taken(reports))
        time.now += 0.001
    assert BURST <= sent <= BURST + 101


def test_a_flood_of_many_kinds_keeps_bounded_memory() -> None:
    reports = Reports(Time())
    kept = sum(reports.add(refused(uid)) for uid in range(100_000))
    assert kept == 17


def test_no_report_is_lost_from_the_count() -> None:
    time = Time()
    reports = Reports(time)
    for number in range(5000):
        reports.add(Report(event=Event.GIT_REFUSED, repo=f"h/{number % 40}", code="G101"))
    time.now += 1000
    found = taken(reports)
    while reports.delay() is not None:
        time.now += 10
        found += taken(reports)
    assert sum(report.count for report in found) == 5000


def test_a_flood_of_one_event_does_not_hide_another() -> None:
    time = Time()
    reports = Reports(time)
    for uid in range(1000):
        reports.add(refused(uid))
    taken(reports)
    for uid in range(1000):
        reports.add(refused(uid))
    reports.add(Report(event=Event.CREDENTIAL_GRANTED, uid=7, repo="h/a"))
    time.now += 2
    assert Event.CREDENTIAL_GRANTED in [report.event for report in taken(reports)]


def test_the_delay_is_the_time_until_the_next_one_may_go() -> None:
    time = Time()
    reports = Reports(time)
    for uid in range(BURST):
        reports.add(refused(uid))
    assert len(taken(reports)) == BURST
    reports.add(refused(99))
    delay = reports.delay()
    assert delay is not None
    assert delay > 0
    assert reports.take() is None
    time.now += delay
    assert reports.take() == refused(99)


def test_a_report_is_one_small_json_object() -> None:
    report = Report(
        event=Event.GIT_REFUSED, uid=3, repo="h/" + "a" * 255, code="G101", req="0" * 16
    )
    data = format_report(report)
    assert len(data) <= 2048
    assert json.loads(data) == {
        "event": "git-refused",
        "uid": 3,
        "repo": "h/" + "a" * 255,
        "code": "G101",
        "req": "0" * 16,
    }


def test_absent_fields_are_left_out() -> None:
    assert json.loads(format_report(refused(5))) == {
        "event": "peer-refused",
        "uid": 5,
        "code": "H101",
    }


@pytest.mark.parametrize(
    "report",
    [
        Report(event=Event.PEER_REFUSED, uid=61003, code="H101"),
        Report(event=Event.CREDENTIAL_GRANTED, uid=61002, repo="hub:acme/app"),
        Report(event=Event.CREDENTIAL_REFUSED, uid=61002, code="H105"),
        Report(event=Event.GIT_REFUSED, uid=61003, repo="x.y:8443:a/b", code="G101", req="0" * 16),
        Report(event=Event.GIT_REFUSED, uid=61003, code="G104"),
    ],
)
def test_the_broker_reads_what_the_sidecar_writes(report: Report) -> None:
    event = recorded(parse_report(format_report(report)), "sb1", "s1")
    fields = event.fields()
    assert fields["reported"] is True
    assert fields.get("peer_uid") == report.uid
    assert fields.get("repo") == report.repo
    assert fields.get("code") == report.code
