"""A small answer, collected in memory up to a limit."""

from twisted.internet.defer import Deferred

from gitmoat.net.causes import Cause, Why
from gitmoat.wire.http.heads import Piece, ResponseHead


class NoAnswer(Exception):
    """There is none, or more of it than we take. The text says which, and quotes nothing."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.text)
        self.why = why


class WholeAnswer:
    """A ResponseSink for one exchange; `done` has the head and the body."""

    def __init__(self, limit: int) -> None:
        self.done: Deferred[tuple[ResponseHead, bytes]] = Deferred()
        self._limit = limit
        self._head: ResponseHead | None = None
        self._body = bytearray()
        self._size = 0

    def response(self, head: ResponseHead) -> None:
        self._head = head

    def body(self, *pieces: Piece) -> None:
        self._size += sum(map(len, pieces))
        if self._size <= self._limit:
            self._body += b"".join(pieces)

    def body_done(self) -> None:
        if self._size > self._limit or self._head is None:
            self.failed(Why(Cause.ANSWER_TOO_LARGE, "the answer is too large"))
        elif not self.done.called:
            self.done.callback((self._head, bytes(self._body)))

    def failed(self, why: Why) -> None:
        if not self.done.called:  # the caller may have given up
            self.done.errback(NoAnswer(why))
