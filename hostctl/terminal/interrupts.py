"""Signals as exceptions, so that `finally` undoes what was begun."""

from __future__ import annotations

import signal
from types import FrameType

from hostctl.failure import Interrupted

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_on_signals() -> None:
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupted)


def ignore_signals() -> None:
    """While cleaning up: a second Ctrl-C must not leave things behind."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)
