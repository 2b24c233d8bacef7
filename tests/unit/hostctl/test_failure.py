"""Errors have one shape and one exit code each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostctl.failure import Failure, before_command, exit_code_of, failure_from, plain


def test_an_error_is_three_lines() -> None:
    told = Failure("C103", "hostd is not running", "nobody listens", "hostctl up")
    assert told.lines() == [
        "error: hostd is not running [C103]",
        "why: nobody listens",
        "fix: hostctl up",
    ]


def test_what_was_not_said_comes_from_the_table_of_codes() -> None:
    _, why, fix = Failure("G201", "no").lines()
    assert why == "why: pushing to this ref is not allowed"
    assert fix.startswith("fix: push to a ref that is allowed")


def test_an_unknown_code_still_has_three_lines() -> None:
    assert len(Failure("Z999", "odd").lines()) == 3


def test_an_error_is_told_with_its_exit_code() -> None:
    mapping = Failure("R103", "none", "w", "f").mapping()
    assert mapping == {"code": "R103", "what": "none", "why": "w", "fix": "f", "exit": 4}


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("C103", 5), ("B101", 5), ("C102", 7), ("C101", 7), ("R103", 4), ("P101", 8), ("P102", 8),
        ("U105", 8),
        ("B104", 8), ("G101", 3), ("S101", 3), ("H101", 3), ("C105", 2), ("C106", 124),
        ("R101", 1), ("C104", 1), ("U101", 1),
    ],
)  # fmt: skip
def test_exit_codes(code: str, exit_code: int) -> None:
    assert exit_code_of(code) == exit_code


def test_a_daemon_may_name_the_exit_code() -> None:
    assert failure_from({"code": "R107", "what": "x", "exit": 127}).exit_code == 127


@pytest.mark.parametrize("exit_code", [0, -1, 256, "3", None, 2.5])
def test_an_impossible_exit_code_is_not_believed(exit_code: object) -> None:
    assert failure_from({"code": "R101", "what": "x", "exit": exit_code}).exit_code == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_any_error_a_daemon_sends_becomes_a_failure_on_three_lines(error: object) -> None:
    failure = failure_from(error)
    assert 0 < failure.exit_code < 256
    assert len("\n".join(failure.lines()).splitlines()) == 3


@given(st.text())
def test_plain_text_is_one_bounded_printable_line(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable() or shown == ""
    assert len(shown) <= 2000


@pytest.mark.parametrize("code", ["C103", "R103", "P101", "S101", "C106", "R101"])
def test_run_and_exec_fail_with_no_code_of_a_commands_own(code: str) -> None:
    assert before_command(Failure(code, "x")).exit_code == 125


@pytest.mark.parametrize("exit_code", [2, 126, 127])
def test_misuse_and_a_missing_program_keep_their_codes(exit_code: int) -> None:
    assert before_command(Failure("R107", "x", exit_code=exit_code)).exit_code == exit_code
