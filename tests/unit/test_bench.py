"""The arithmetic of the benchmark suite: what it says must follow from what it saw."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from bench import profile, smoke
from bench.chains.way import OURS
from bench.figures import Book, book_of, figure, percentile
from bench.neighbours import LOADS, NOTHING, Load
from bench.parts.outcomes import Outcome, Outcomes, row_of
from bench.peers import PEERS, Peer, available, missing
from bench.plots import pictures
from bench.report import files, last_run, page
from bench.rows.requests import rate, slowest
from bench.saving import Saved, load, save
from bench.smoke import WATCHED, Watched, slipped
from bench.table import markdown, targets_table, text
from bench.targets import TARGETS, Target, Verdict


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


def test_the_worst_of_all_ways_counts_where_said() -> None:
    target = Target("row", 2.0, 2.0, against="idle", worst=True)
    assert target.value(book(idle=[1.0], lease=[1.5], bomb=[3.0])) == 3.0
    assert target.verdict(book(idle=[1.0], lease=[1.5])) is Verdict.GOAL
    assert target.verdict(book(lease=[1.5])) is target.verdict(book(idle=[1.0])) is Verdict.UNKNOWN
    bound = Target("row", 0.0, 0.0, worst=True)
    assert bound.verdict(book(idle=[0.0], lease=[0.0])) is Verdict.GOAL
    assert bound.verdict(book(idle=[0.0], lease=[2.0])) is Verdict.MISSED


def test_what_fails_beside_a_neighbour_is_counted_with_the_time_that_it_took() -> None:
    outcomes, made = Outcomes(), Book()
    for outcome in (Outcome(1.0), Outcome(31.0, "R101"), Outcome(1.0), Outcome(2.0)):
        outcomes.add("exec", "write lease", outcome)
    outcomes.write(made)
    row = row_of("exec")
    assert made.rows[row].values == {"write lease": [1.0, 31.0, 1.0, 2.0]}
    assert made.rows[f"{row}: p99"].values == {"write lease": [31.0]}
    assert made.rows[f"{row}: failed"].values == {"write lease": [25.0]}
    assert outcomes.failures() == ["exec beside write lease: 1 of 4: R101"]


def test_what_failed_three_times_is_not_tried_again() -> None:
    outcomes = Outcomes()
    for _ in range(2):
        outcomes.add("exec", "write lease", Outcome(31.0, "R101"))
    assert not outcomes.hopeless("exec", "write lease")
    outcomes.add("exec", "write lease", Outcome(31.0, "R101"))
    assert outcomes.hopeless("exec", "write lease")
    assert not outcomes.hopeless("exec", "idle") and not outcomes.hopeless("run", "write lease")


@pytest.mark.parametrize("load", [NOTHING, *LOADS], ids=lambda load: load.name)
def test_what_a_neighbour_runs_is_a_program(load: Load) -> None:
    python, _, _, program, place = load.command("localhost:1")
    assert (python, place) == ("/usr/bin/python3", "localhost:1")
    compile(program, load.name, "exec")


def test_a_target_without_bounds_is_only_shown() -> None:
    target = Target("row", against="nginx", more=True)
    seen = book(gitmoat=[1.0], nginx=[2.0])
    assert target.verdict(seen) is Verdict.SHOWN and target.verdict(Book()) is Verdict.UNKNOWN
    assert targets_table(seen, [target])[1] == ["row / nginx", "-", "-", "0.5", "no target"]


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


def saved(rows: Book) -> Saved:
    return Saved("2026-01-02", "full", {"cores": "2"}, rows)


def test_a_run_is_saved_and_read_again(tmp_path: Path) -> None:
    made = Book()
    made.add("download", "nginx", "MB/s", 200.0)
    made.add("download", OURS, "MB/s", 100.0)
    path = save(saved(made), tmp_path)
    assert path.name == "2026-01-02-full.json"
    assert load(path) == saved(made)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_curves_are_drawn_over_the_numbers_in_the_names_of_rows() -> None:
    made = Book()
    for count, value in ((1, 9.0), (50, 6.0), (200, 3.0)):
        made.add(f"N = {count}: PSS of a sidecar", OURS, "MiB", value)
    drawn = pictures(made)
    assert list(drawn) == ["density"]
    for label in (">200<", ">9<", ">PSS<"):
        assert label in str(drawn["density"])


def test_every_row_of_a_run_is_on_the_page() -> None:
    run = load_latest()
    shown = page(run)
    assert [name for name in run.book.rows if f"| {name} |" not in shown] == []


def test_the_page_about_performance_is_what_the_last_full_run_says() -> None:
    """`python -m bench.report` writes it."""
    for path, wanted in files(load_latest()).items():
        assert path.read_text(encoding="utf-8") == wanted, path.name


def load_latest() -> Saved:
    found = last_run()
    assert found is not None
    return load(found)


def test_the_page_names_no_machine() -> None:
    assert platform.node() not in load_latest().machine.values()
    assert "host name" not in load_latest().machine


def test_what_is_left_out_is_not_missing() -> None:
    absent = Peer("nobody", "no-such-program", "no-such-package")
    assert not absent.there
    names = [peer.name for peer in PEERS]
    assert missing(without=names) == []
    assert available(without=names) == set()


def test_what_a_run_left_out_is_shown_as_not_measured() -> None:
    lines = targets_table(Book())[1:]
    assert len(lines) == len(TARGETS)
    assert {line[-1] for line in lines} == {"not measured"}


@pytest.mark.parametrize(
    ("line", "kind", "symbol"),
    [
        ("    29.87%  python3.11     [.] _PyEval_EvalFrameDefault   -      -", "Python", "_PyEval"),
        ("    50.19%  [kernel.kallsyms]  [k] _copy_to_iter", "kernel", "_copy_to_iter"),
        ("     3.45%  _rust.abi3.so", "cryptography", ""),
        ("     3.87%  libc.so.6     ", "libc", ""),
    ],
)
def test_samples_are_sorted_by_what_they_were_taken_in(line: str, kind: str, symbol: str) -> None:
    found = profile._LINE.match(line)
    assert found is not None and profile._kind(found[2]) == kind
    assert (found[3] or "").startswith(symbol)
