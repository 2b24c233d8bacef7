"""What a program that could not be started is called, by the error's number and not its words."""

import errno

import pytest

from hostd.broker_link.helper_link import why_not_run
from hostd.failures import Failed, NotStarted
from hostd.process.commands import not_started


@pytest.mark.parametrize(
    ("number", "code", "exit_code", "told"),
    [
        (errno.ENOENT, "R107", 127, "was not run: there is no such program"),
        (errno.EACCES, "R107", 126, "was not run: its user may not execute it"),
        (errno.EPERM, "R107", 126, "was not run: its user may not execute it"),
        (errno.ENOEXEC, "R101", 1, "was not run: FileNotFoundError: some words"),
        (0, "R101", 1, "was not run: FileNotFoundError: some words"),
    ],
)
def test_the_number_says_what_is_missing(number: int, code: str, exit_code: int, told: str) -> None:
    problem = NotStarted("FileNotFoundError: some words", number)
    failed = not_started("program", problem)
    assert (failed.code, failed.exit_code) == (code, exit_code)
    assert why_not_run(problem) == told


def test_words_alone_say_nothing() -> None:
    problem = Failed("R101", "could not start a process", why="FileNotFoundError: some words")
    assert not_started("program", problem) is problem
