"""What the sidecar asks of a reactor, as types: zope's interfaces mean nothing to mypy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    def cancel(self) -> object: ...

    def active(self) -> object: ...


class Clock(Protocol):
    def seconds(self) -> float: ...

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object
    ) -> Timer: ...


class Loop(Clock, Protocol):
    def addReader(self, reader: Any) -> object: ...

    def removeReader(self, reader: Any) -> object: ...

    def adoptStreamConnection(
        self, descriptor: int, family: int, factory: Any, /
    ) -> object: ...


def cancel(timer: Timer | None) -> None:
    """Cancel a timer that may have fired, or may never have been set."""
    if timer is not None and timer.active():
        timer.cancel()
