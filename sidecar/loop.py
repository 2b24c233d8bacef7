"""What the sidecar asks of a reactor, as types: zope's interfaces mean nothing to mypy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gitmoat.net.transport.seqpacket import Reactor


class Clock(Protocol):
    def seconds(self) -> float: ...

    def callLater(
        self, delay: float, call: Callable[..., object], /, *args: Any, **named: Any
    ) -> Any: ...


class Loop(Clock, Reactor, Protocol):
    pass
