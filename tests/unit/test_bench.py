"""The arithmetic of the benchmark suite: what it says must follow from what it saw."""

from __future__ import annotations

import json

import pytest

from bench import smoke
from bench.figures import Book, book_of, figure, percentile
from bench.rows.requests import rate, slowest
from bench.smoke import WATCHED, Watched, slipped
from bench.table import markdown, targets_table, text
from bench.targets import Target, Verdict


def book(**values: list[float]) -> Book:
    made = Book()
    for way, each in values.items():
        for value in each:
            made.add("row", way, "s", value)
    return made


def test_a_figure_is_the_median_and_the_spread_of_the_middle_half() -> None:
    assert figure([1.0, 2.0, 3.0, 4.0, 100.0]).median == 3.0
    assert figure([1.0, 2.0, 3.0, 4.0, 100.0]).spread == pytest.approx(2 / 3)
    assert figure([5.0]).spread == 0.0
    assert figure([0.0, 0.0]).spread == 0.0


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(number) for number in range(100)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile([3.0], 0.99) == 3.0


def test_a_ratio_needs_both_sides() -> None:
    row = book(gitmoat=[2.0, 4.0, 3.0], nginx=[6.0]).rows["row"]
    assert row.ratio("gitmoat", "nginx") == 0.5
    assert row.ratio("gitmoat", "haproxy") is None


def test_a_book_survives_being_saved() -> None:
    made = book(gitmoat=[1.23456, 2.0], direct=[3.0])
    again = book_of(made.as_json())  # type: ignore[arg-type]
    assert again.rows["row"].values == {"gitmoat": [1.235, 2.0], "direct": [3.0]}
    assert again.rows["row"].unit == "s"


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.8, Verdict.GOAL), (1.0, Verdict.FLOOR), (1.2, Verdict.MISSED)]
)
def test_less_is_better_unless_said(value: float, verdict: Verdict) -> None:
    target = Target("row", floor=1.1, goal=0.9, against="nginx")
    assert target.verdict(book(gitmoat=[value], nginx=[1.0])) is verdict


@pytest.mark.parametrize(
    ("value", "verdict"), [(1.3, Verdict.GOAL), (1.1, Verdict.FLOOR), (0.8, Verdict.MISSED)]
)
def test_more_is_better_where_said(value: float, verdict: Verdict) -> None:
    target = Target("row", floor=1.0, goal=1.25, against="nginx", more=True)
    assert target.verdict(book(gitmoat=[value], nginx=[1.0])) is verdict


def test_what_was_not_measured_is_not_met() -> None:
    target = Target("row", 1.0, 1.0, against="nginx")
    assert target.verdict(Book()) is Verdict.UNKNOWN
    assert target.verdict(book(gitmoat=[1.0])) is Verdict.UNKNOWN


def test_added_time_is_above_the_direct_way() -> None:
    target = Target("row", 0.9, 0.6, against="nginx", added=True)
    assert target.value(book(gitmoat=[1.5], nginx=[2.0], direct=[1.0])) == pytest.approx(0.5)
    assert target.value(book(gitmoat=[1.5], nginx=[2.0])) is None


def test_a_target_without_a_peer_is_a_bound() -> None:
    target = Target("row", floor=4.0, goal=1.0)
    assert target.verdict(book(gitmoat=[0.5], nginx=[9.0])) is Verdict.GOAL


def test_tables_say_the_verdict() -> None:
    target = Target("row", 1.1, 0.9, against="nginx")
    lines = targets_table(book(gitmoat=[1.0], nginx=[1.0]), [target])
    assert lines[1] == ["row / nginx", "≤ 1.1", "≤ 0.9", "1", "floor met"]
    assert markdown(lines).splitlines()[1] == "| --- | --- | --- | --- | --- |"
    assert text(lines).splitlines()[1].startswith("row / nginx  ≤ 1.1")


WRK = """\
    50%  640.00us
    99%    1.95s
  100 requests in 1.00s
Requests/sec:   1723.45
"""


def test_what_wrk_says_is_read() -> None:
    assert rate(WRK) == 1723.45
    assert slowest(WRK) == 1950.0


@pytest.mark.parametrize(
    "trouble", ["  Non-2xx or 3xx responses: 3\n", "  Socket errors: connect 0, read 1\n"]
)
def test_a_run_with_failures_is_no_figure(trouble: str) -> None:
    with pytest.raises(RuntimeError):
        rate(WRK + trouble)


SAVED = {each.row: 1.0 for each in WATCHED}


def test_a_slip_by_less_than_half_is_noise() -> None:
    now = {each.row: 0.6 if each.more else 1.9 for each in WATCHED}
    assert slipped(now, SAVED) == []


@pytest.mark.parametrize("watched", WATCHED, ids=lambda each: each.row)
def test_a_slip_by_more_than_half_is_seen_in_its_direction(watched: Watched) -> None:
    assert slipped(SAVED | {watched.row: 0.4 if watched.more else 2.1}, SAVED) == [watched]
    assert slipped(SAVED | {watched.row: 2.1 if watched.more else 0.4}, SAVED) == []


def test_what_the_smoke_did_not_measure_has_slipped() -> None:
    assert slipped({}, SAVED) == list(WATCHED)


def test_there_is_a_saved_ratio_for_everything_watched() -> None:
    saved = json.loads(smoke.SAVED.read_text())
    assert saved.keys() == {each.row for each in WATCHED}
    assert all(value > 0 for value in saved.values())
