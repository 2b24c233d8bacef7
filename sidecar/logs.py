"""Where log lines go: one inherited descriptor, short lines."""

from __future__ import annotations

from typing import Any, TextIO

from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)


def lines_to(stream: TextIO) -> Any:
    lines: Any = textFileLogObserver(stream, timeFormat="%Y-%m-%dT%H:%M:%S%z")
    wanted: Any = LogLevelFilterPredicate(LogLevel.info)
    return FilteringLogObserver(lines, [wanted])


def log_to(stream: TextIO) -> None:
    """Begin logging; what was said before the fork was not ours to say, and is dropped."""
    observer = lines_to(stream)
    globalLogBeginner.beginLoggingTo([observer], discardBuffer=True, redirectStandardIO=False)
