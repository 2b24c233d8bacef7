"""Reads what the body of a request begins with, where that decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from broker.exchange.kind import Prefix
from gitmoat.net.causes import Why
from gitmoat.wire.http.heads import Piece


@define(eq=False)
class PrefixSink:
    """Reads what a body begins with; the rest stays where it is."""

    _reader: Prefix
    _hold: Callable[[], None]
    done: Deferred[Any] = field(factory=Deferred, init=False)

    def body(self, *pieces: Piece) -> None:
        if not self.done.called:
            self._found(self._reader.feed(b"".join(pieces)))

    def body_done(self) -> None:
        if not self.done.called:
            self._found(self._reader.finish())

    def body_failed(self, why: Why) -> None:
        """The exchange hears of it from the request itself."""

    def _found(self, found: Any | None) -> None:
        if found is not None:
            self._hold()
            self.done.callback(found)
