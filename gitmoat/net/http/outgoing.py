"""The body of a message that we are sending, in its framing."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

from gitmoat.net.timing import Clock
from gitmoat.wire.http.heads import (
    LAST_CHUNK,
    Chunked,
    Framing,
    Length,
    NoBody,
    Piece,
    UntilClose,
    chunk,
)


class OutgoingConnection(Protocol):
    """What an outgoing message needs of its connection."""

    @property
    def blocked(self) -> bool: ...

    def put(self, pieces: Sequence[Piece]) -> None: ...

    def sent(self) -> None:
        """The message is whole."""

    def abort(self) -> None: ...


class Outgoing:
    """Writes one body in its framing. Ends with `finish`, or the connection is aborted.

    Once the connection is lost or has moved on, every call is ignored.
    """

    def __init__(
        self, connection: OutgoingConnection, clock: Clock, head: bytes, framing: Framing
    ) -> None:
        # The end of a body that ends by closing cannot be told from a cut (RFC 9112, section 8).
        if isinstance(framing, UntilClose):
            raise ValueError("we never end a body by closing")
        self._connection = connection
        self._clock = clock
        self._framing = framing
        self._left = framing.octets if isinstance(framing, Length) else 0
        self._head = head
        self._soon: Any = None
        self._pause: Callable[[], None] | None = None
        self._resume: Callable[[], None] | None = None
        self._paused = False
        self.alive = True
        self.finished = False

    def start(self) -> None:
        if isinstance(self._framing, NoBody):
            self.finish()
        else:
            # The first piece usually comes in this turn: head and piece leave as one write.
            self._soon = self._clock.callLater(0, self._late)

    def write(self, *pieces: Piece) -> None:
        framed = self._framed(pieces)
        if framed:
            self._put(framed)

    def finish(self, *pieces: Piece) -> None:
        """The end; `pieces` are the last of the body, and leave with it as one write."""
        framed = self._framed(pieces)
        if not self.alive:
            return
        if self._left:
            self.abort()
            return
        self._put([*framed, LAST_CHUNK] if isinstance(self._framing, Chunked) else framed)
        self.finished = True
        self.detach()
        self._connection.sent()

    def abort(self) -> None:
        """Cut the connection: the peer must not take what it has for the whole."""
        if self.alive:
            self.detach()
            self._connection.abort()

    def bind_source(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        """Whom to pause while the peer does not read; resumed at the latest when this ends."""
        if self.alive:
            self._pause, self._resume = pause, resume
            if self._connection.blocked:
                self.flow()

    def flow(self) -> None:
        """Called by the connection when `blocked` has changed."""
        blocked = self._connection.blocked
        if self.alive and self._pause is not None and blocked and not self._paused:
            self._paused = True
            self._pause()
        elif not blocked:
            self._unpause()

    def detach(self) -> None:
        """Called when the connection has no more use for this; the source runs free."""
        self.alive = False
        if self._soon is not None:
            self._cancel_late()
        if self._paused:
            self._unpause()
        self._pause = self._resume = None

    def _framed(self, pieces: Sequence[Piece]) -> list[Piece]:
        size = sum(map(len, pieces))
        if not self.alive or not size:
            return []
        match self._framing:
            case Chunked():
                return chunk(*pieces)
            case Length() if size <= self._left:
                self._left -= size
                return [*pieces]
            case Length() | NoBody() | UntilClose():
                # The peer would read the surplus as the next message: response splitting, or
                # request smuggling (RFC 9112, sections 11.1 and 11.2).
                self.abort()
                return []
            case _:
                assert_never(self._framing)

    def _unpause(self) -> None:
        if self._paused and self._resume is not None:
            self._paused = False
            self._resume()

    def _put(self, pieces: list[Piece]) -> None:
        if self._head:
            pieces.insert(0, self._head)
            self._head = b""
            if self._soon is not None:
                self._cancel_late()
        if pieces:
            self._connection.put(pieces)

    def _late(self) -> None:
        self._soon = None
        self._put([])

    def _cancel_late(self) -> None:
        self._soon.cancel()
        self._soon = None
