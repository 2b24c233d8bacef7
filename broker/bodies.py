"""Small request bodies, read whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import define, field

from gitwire.errors import Malformed
from gitwire.http import Piece
from streams.http import Incoming


@define(eq=False)
class _Collect:
    """A body sink of `streams`; silent when the client is lost before the end."""

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

    def body_failed(self, why: str) -> None:
        self._body.clear()


def collect(incoming: Incoming, limit: int, then: Callable[[bytes], None]) -> None:
    incoming.stream(_Collect(limit, then))


def parse_object(data: bytes) -> dict[str, Any]:
    """A JSON object; Malformed for anything else."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        raise Malformed("body is not JSON") from None
    if not isinstance(parsed, dict):
        raise Malformed("body is not a JSON object")
    return parsed


def text(fields: dict[str, Any], key: str, limit: int = 255) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise Malformed(f"{key} is not a short text")
    return value


def number(fields: dict[str, Any], key: str) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Malformed(f"{key} is not a whole number")
    return value
