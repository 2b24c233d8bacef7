"""Small request bodies, read whole."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from gitmoat.net.causes import Why
from gitmoat.net.http.ends import Incoming
from gitmoat.wire.http.heads import Piece
from gitmoat.wire.malformed import Malformed


@define(eq=False)
class _Collect:
    """A body sink; it tells nobody when the client is lost before the end."""

    _limit: int
    _then: Callable[[bytes], None]
    _body: bytearray = field(factory=bytearray, init=False)
    _size: int = field(default=0, init=False)

    def body(self, *pieces: Piece) -> None:
        self._size += sum(map(len, pieces))
        if self._size > self._limit:
            raise Malformed("body is too large", 413)
        self._body += b"".join(pieces)

    def body_done(self) -> None:
        self._then(bytes(self._body))

    def body_failed(self, why: Why) -> None:
        self._body.clear()


def collect(incoming: Incoming, limit: int, then: Callable[[bytes], None]) -> None:
    incoming.stream(_Collect(limit, then))
