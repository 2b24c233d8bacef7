"""pkt-line framing (gitprotocol-common): four hex digits of length, then the payload."""

import re
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from gitmoat.wire.malformed import Malformed

MAX_PKT: Final = 65520  # LARGE_PACKET_MAX of git's pkt-line.h, the four digits included
MAX_PAYLOAD: Final = MAX_PKT - 4
FLUSH: Final = b"0000"

_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")


@frozen
class Data:
    payload: bytes


@frozen
class Flush:
    """`0000`: end of a section."""


@frozen
class Delim:
    """`0001`: separates the parts of a protocol v2 message."""


@frozen
class ResponseEnd:
    """`0002`: end of a stateless protocol v2 response."""


Pkt = Data | Flush | Delim | ResponseEnd


class PktReader:
    """Cuts a stream into pkts; holds less than one pkt, reads at most `limit` bytes of them."""

    def __init__(self, limit: int, stop_at_flush: bool = False) -> None:
        self._left = limit
        self._stop_at_flush = stop_at_flush
        self._buffer = bytearray()
        self._failure: Malformed | None = None
        self.stopped = False

    def feed(self, data: bytes) -> list[Pkt]:
        """Return the pkts completed by `data`; after an error every call raises it again."""
        return list(self.walk(data))

    def walk(self, data: bytes) -> Iterator[Pkt]:
        """The same one by one: those in front of an error are given before it is raised."""
        if self._failure is not None:
            raise self._failure
        self._buffer += data
        try:
            yield from self._cut()
        except Malformed as failure:
            self._failure = failure.alone()
            self._buffer.clear()
            raise

    def finish(self) -> None:
        """The stream has ended: refuse half a pkt."""
        if self._failure is not None:
            raise self._failure
        if self._buffer and not self.stopped:
            raise Malformed("stream ends inside a pkt-line")

    @property
    def leftover(self) -> bytes:
        """What came after the flush the reader stopped at."""
        return bytes(self._buffer) if self.stopped else b""

    def _cut(self) -> Iterator[Pkt]:
        while not self.stopped and (pkt := self._next()) is not None:
            self.stopped = self._stop_at_flush and isinstance(pkt, Flush)
            yield pkt

    def _next(self) -> Pkt | None:
        if len(self._buffer) < 4:
            return None
        length = _length(bytes(self._buffer[:4]))
        size = max(length, 4)
        if size > self._left:
            raise Malformed("too much pkt-line data", 413)
        if len(self._buffer) < size:
            return None
        payload = bytes(self._buffer[4:size])
        del self._buffer[:size]
        self._left -= size
        return _SPECIAL.get(length) or Data(payload)


_SPECIAL: Final[dict[int, Pkt]] = {0: Flush(), 1: Delim(), 2: ResponseEnd()}


def format_data(payload: bytes) -> bytes:
    if len(payload) > MAX_PAYLOAD:
        raise ValueError("payload does not fit into one pkt-line")
    return b"%04x" % (len(payload) + 4) + payload


def _length(digits: bytes) -> int:
    # As packet_length() of git's pkt-line.c; int() alone would also take b" +1_" and its like.
    if _LENGTH.fullmatch(digits) is None:
        raise Malformed("pkt-line length is not hexadecimal")
    length = int(digits, 16)
    # packet_read_with_status() dies at 3 too. An empty line, 0004, may be sent (gitprotocol-common
    # says SHOULD NOT).
    if length == 3 or length > MAX_PKT:
        raise Malformed("pkt-line length is not one git sends")
    return length
