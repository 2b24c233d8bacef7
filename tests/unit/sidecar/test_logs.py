"""A log line is the one that Twisted would write, or Twisted's own."""

from __future__ import annotations

import io
from typing import Any

import pytest
from twisted.logger import Logger, LogLevel, formatEventAsClassicLogText, formatTime
from twisted.python.failure import Failure

from sidecar.logs import BURST, LONGEST, line_of, lines_to


class Thing:
    name = "thing"

    def size(self) -> int:
        return 3


def event(**fields: Any) -> dict[str, Any]:
    about = {"log_namespace": "a.b", "log_level": LogLevel.info, "log_time": 1794844766.25}
    return about | {"log_logger": Logger("a.b")} | fields


def failure() -> Failure:
    try:
        raise ValueError("no")
    except ValueError:
        return Failure()


@pytest.mark.parametrize(
    "given",
    [
        event(log_format="active"),
        event(log_format="{why}, twice {why}", why="x\ny"),
        event(log_format="{thing.name} of {thing.size()}", thing=Thing()),
        event(log_format="{missing}"),
        event(log_format="lost", log_failure=failure()),
        event(log_format="old", log_system="-"),
        event(log_format="{number:>4}", number=7, log_level=LogLevel.critical),
        {"log_time": 1794844766.25, "log_format": "bare"},
        {"log_format": "without a time"},
    ],
)
def test_it_is_what_twisted_says(given: dict[str, Any]) -> None:
    theirs = formatEventAsClassicLogText(
        given, lambda when: formatTime(when, "%Y-%m-%dT%H:%M:%S%z")
    )
    assert line_of(given) == theirs


def test_what_is_for_debugging_is_not_said_and_what_says_nothing_is_no_line() -> None:
    stream = io.StringIO()
    observe = lines_to(stream)
    observe(event(log_format="x", log_level=LogLevel.debug))
    observe(event(log_format=""))
    observe(event(log_format="y"))
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["y"]


def test_a_flood_of_lines_is_left_out_and_told_in_numbers() -> None:
    stream, now = io.StringIO(), [0.0]
    observe = lines_to(stream, lambda: now[0])
    for number in range(BURST + 500):
        observe(event(log_format="line {number}", number=number))
    assert len(stream.getvalue().splitlines()) == BURST
    now[0] = 60.0
    observe(event(log_format="again"))
    told, again = stream.getvalue().splitlines()[BURST:]
    assert told == "(500 lines were left out)" and again.endswith("again")
    now[0] = 120.0
    observe(event(log_format="and again"))
    assert len(stream.getvalue().splitlines()) == BURST + 3


def test_a_long_line_loses_its_middle() -> None:
    stream = io.StringIO()
    lines_to(stream)(event(log_format="begin{text}end", text="x" * 10 * LONGEST))
    assert len(stream.getvalue()) < LONGEST + 20
    assert "begin" in stream.getvalue() and stream.getvalue().endswith("end\n")


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_no_reason_to_fail() -> None:
    lines_to(FullDisk())(event(log_format="x"))
