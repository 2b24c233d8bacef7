"""The two ways in which a body or an answer is taken as it arrives."""

from collections.abc import Callable
from typing import Protocol

from gitmoat.net.causes import Why
from gitmoat.wire.http.heads import Piece, ResponseHead


class BodySink(Protocol):
    """Gets a request's body; exactly one of the last two is called, and is the last call.

    A sink that was replaced, or whose request has been answered, hears nothing more.
    """

    def body(self, *pieces: Piece) -> None: ...

    def body_done(self) -> None: ...

    def body_failed(self, why: Why) -> None: ...


class ResponseSink(Protocol):
    """Gets a response; exactly one of the last two is called, and is the last call."""

    def response(self, head: ResponseHead) -> None: ...

    def body(self, *pieces: Piece) -> None: ...

    def body_done(self) -> None: ...

    def failed(self, why: Why) -> None: ...


class Discard:
    """Reads and drops, so that the sender is not reset before it has read our answer (RFC 9112,
    section 9.6)."""

    def __init__(self, limit: int, over: Callable[[], None]) -> None:
        self._left = limit
        self._over = over

    def body(self, *pieces: Piece) -> None:
        self._left -= sum(map(len, pieces))
        if self._left < 0:
            self._over()

    def body_done(self) -> None:
        """Nobody waits for it."""

    def body_failed(self, why: Why) -> None:
        """The connection is gone; nothing was kept of it."""
