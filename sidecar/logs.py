"""Where log lines go: one inherited descriptor, short lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TextIO

from twisted.logger import (
    LogEvent,
    LogLevel,
    formatEventAsClassicLogText,
    formatTime,
    globalLogBeginner,
)

_TIME: Final = "%Y-%m-%dT%H:%M:%S%z"


def lines_to(stream: TextIO) -> Callable[[LogEvent], None]:
    def observe(event: LogEvent) -> None:
        if event.get("log_level") is not LogLevel.debug:
            stream.write(line_of(event))
            stream.flush()

    return observe


def line_of(event: LogEvent) -> str:
    """As Twisted writes it, which takes ten times as much to say a plain thing."""
    try:
        return _plain(event)
    except (KeyError, AttributeError, ValueError, IndexError, TypeError):
        text = formatEventAsClassicLogText(event, lambda when: formatTime(when, _TIME))
        return text or ""


def _plain(event: LogEvent) -> str:
    if "log_failure" in event or "log_system" in event:
        raise KeyError
    said: str = event["log_format"].format_map(event)
    if not said:
        raise ValueError
    when = time.strftime(_TIME, time.localtime(event["log_time"]))
    where = f"{event['log_namespace']}#{event['log_level'].name}"
    return f"{when} [{where}] {said.replace(chr(10), chr(10) + chr(9))}\n"


def log_to(stream: TextIO) -> None:
    """Begin logging; what was said before the fork was not ours to say, and is dropped."""
    observer: Any = lines_to(stream)
    globalLogBeginner.beginLoggingTo([observer], discardBuffer=True, redirectStandardIO=False)
