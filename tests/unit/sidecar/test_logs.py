"""What a sidecar says to its log: short lines, and few."""

from __future__ import annotations

import io
from typing import Any

from twisted.logger import Logger, LogLevel

from sidecar.logs import BURST, LONGEST, lines_to


def event(**fields: Any) -> dict[str, Any]:
    about = {"log_namespace": "a.b", "log_level": LogLevel.info, "log_time": 1794844766.25}
    return about | {"log_logger": Logger("a.b")} | fields


def test_a_line_says_when_where_and_what() -> None:
    stream = io.StringIO()
    lines_to(stream)(event(log_format="{why}, twice {why}", why="x\ny"))
    when, where, said = stream.getvalue().split(" ", 2)
    assert when.startswith("2026-11-16T") and where == "[a.b#info]"
    assert said == "x\n\ty, twice x\n\ty\n"


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
