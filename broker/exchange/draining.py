"""The end in good order: a restart of the broker breaks no request that ends in time.

What was under way when the broker was told to end goes on, and new requests are served beside it.
Then nothing more is taken: connections are closed in order, and sidecars hold what comes until the
next broker answers. Both have a limit; what is left then is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import define, field
from twisted.internet.defer import Deferred

from broker.api.listener import Listener
from broker.sessions.sessions import Sessions

# Shorter than a sidecar holds a request, so that the next broker has time to start.
CLOSING: Final = 4.0
_LOOK: Final = 0.05


@define(eq=False)
class Drain:
    """`start` it once; what it returns fires when there is nothing left to wait for."""

    _clock: Any
    _sessions: Sessions
    _listener: Listener
    _stop_listening: Callable[[], object]
    _timeout: float
    _waited: float = field(default=0.0, init=False)
    _first: set[tuple[str, int]] = field(factory=set, init=False)
    _done: Deferred[None] = field(factory=Deferred, init=False)

    def start(self) -> Deferred[None]:
        self._first = self._sessions.under_way()
        self._serve()
        return self._done

    def _serve(self) -> None:
        self._first &= self._sessions.under_way()
        if self._first and self._waited < self._timeout:
            self._later(self._serve)
            return
        self._waited = 0.0
        self._stop_listening()
        self._listener.close_all()
        self._close()

    def _close(self) -> None:
        if self._listener.closing and self._waited < min(CLOSING, self._timeout):
            self._later(self._close)
        else:
            self._done.callback(None)

    def _later(self, look: Callable[[], None]) -> None:
        self._waited += _LOOK
        self._clock.callLater(_LOOK, look)
