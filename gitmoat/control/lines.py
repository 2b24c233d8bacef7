"""The lines of a control socket, cut from a stream and read; without a socket or a reactor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class TooLong(Exception):
    """A line has grown past its bound; nothing after it can be read."""


class LineReader:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self._held = (self._held + data).split(b"\n")
        if any(len(each) > self._limit for each in (*lines, self._held)):
            raise TooLong
        return lines


def object_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def line_of(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"
