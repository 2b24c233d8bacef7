"""`make test` runs every test file once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.__main__ import HERE, NOT_HERE, counted, suites, without_history
from tests.releases import Release, parse


def test_every_test_file_is_in_one_suite() -> None:
    files = [path for suite in suites() for path in Path(HERE, suite).rglob("test_*.py")]
    assert len(suites()) == len(set(suites())) > 10
    elsewhere = [path for name in NOT_HERE for path in Path(HERE, name).rglob("test_*.py")]
    assert elsewhere
    assert sorted(files + elsewhere) == sorted(HERE.rglob("test_*.py"))


def test_foreign_peers_have_a_target_of_their_own() -> None:
    assert set(NOT_HERE) == {"peers"}
    targets = Path(HERE.parent, "Makefile").read_text()
    assert 'pytest tests/peers -m "not long"' in targets
    assert "pytest tests/peers -m long" in targets


def test_a_table_of_cases_that_is_empty_fails(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("empty_parameter_set_mark") == "fail_at_collect"


def test_what_a_suite_says_of_itself_is_counted() -> None:
    said = "=== FAILURES ===\n1 passed\n=== 1 failed, 12 passed, 3 skipped, 2 errors in 1.0s ===\n"
    assert counted(said) == {"failed": 1, "passed": 12, "skipped": 3, "error": 2}
    assert counted("Segmentation fault") == {}


def test_releases_are_read_in_the_order_of_the_file() -> None:
    text = "# about\n0.1.0 aaaa\n\n0.2.0 bbbb\n"
    assert parse(text) == [Release("0.1.0", "aaaa"), Release("0.2.0", "bbbb")]


def test_without_history_the_same_tests_are_chosen_but_for_those_that_need_it() -> None:
    assert without_history(["-x"]) == ["-x", "-m", "not history"]
    assert without_history(["-m", "not long"]) == ["-m", "(not long) and not history"]
