"""Where log lines go: one inherited descriptor, short lines, few of them.

The file lies on the host's disk, and what a sandbox does may be the reason for a line. What the
process may write to a file at all is bounded by hostd (RLIMIT_FSIZE).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TextIO

from twisted.logger import (
    LogEvent,
    LogLevel,
    formatEventAsClassicLogText,
    formatTime,
    globalLogBeginner,
)

from gitmoat.limits.buckets import TokenBucket

_TIME: Final = "%Y-%m-%dT%H:%M:%S%z"
LONGEST: Final = 8192
BURST: Final = 100
PER_SECOND: Final = 1 / 60


def lines_to(
    stream: TextIO, now: Callable[[], float] = time.monotonic
) -> Callable[[LogEvent], None]:
    """An observer that leaves out what would be too much, and says how much that was."""
    credit, left_out = TokenBucket(PER_SECOND, BURST), 0

    def observe(event: LogEvent) -> None:
        nonlocal left_out
        if event.get("log_level") is LogLevel.debug:
            return
        if credit.take(now()):
            left_out += 1
            return
        line = _cut(_line(event))
        if left_out:
            line, left_out = f"({left_out} lines were left out)\n{line}", 0
        _write(stream, line)

    return observe


def _line(event: LogEvent) -> str:
    return formatEventAsClassicLogText(event, lambda when: formatTime(when, _TIME)) or ""


def _cut(line: str) -> str:
    """The beginning says where, the end of a traceback says what."""
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]}\n\t[...]\n\t{line[-LONGEST // 2 :]}"


def _write(stream: TextIO, line: str) -> None:
    with suppress(OSError):  # no room on the disk, or in the file: nowhere to say it
        stream.write(line)
        stream.flush()


def log_to(stream: TextIO) -> None:
    """Begin logging; what Twisted kept from before the fork is dropped."""
    observer: Any = lines_to(stream)
    globalLogBeginner.beginLoggingTo([observer], discardBuffer=True, redirectStandardIO=False)
