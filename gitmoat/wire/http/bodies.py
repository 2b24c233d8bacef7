"""Readers that find the end of a body and refuse every framing that is not plain."""

import re
from typing import Final, Protocol, assert_never

from gitmoat.wire.http.framing import MAX_BODY, Chunked, Framing, Length, NoBody, UntilClose
from gitmoat.wire.malformed import Malformed

LAST_CHUNK: Final = b"0\r\n\r\n"

# RFC 9112, 7.1.1 has chunk extensions ignored. Hops differ in where one ends, so none is read.
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_WHOLE_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})\r\n")
_CRLF: Final = b"\r\n"
_SIZE_LINE: Final = 18
# So many pieces go to a system call, and to TLS, as they are; more of them are cheaper as one.
_FEW: Final = 32

# A view is of bytes that nobody changes, so it may be kept.
Piece = bytes | memoryview


class BodyReader(Protocol):
    """Single use and sticky: after an error or the end, `feed` raises."""

    @property
    def done(self) -> bool: ...

    @property
    def leftover(self) -> bytes:
        """What came behind the end of the body."""

    def feed(self, data: bytes) -> list[Piece]:
        """Return the payload in `data`, in order, cut anywhere: few pieces, none of them empty."""

    def finish(self) -> None:
        """The connection has ended: raise unless the body is whole."""


def body_reader(framing: Framing) -> BodyReader:
    match framing:
        case NoBody():
            return LengthReader(0)
        case Length(octets):
            return LengthReader(octets)
        case Chunked():
            return ChunkedReader()
        case UntilClose():
            return UntilCloseReader()
        case _:
            assert_never(framing)


def chunk(*pieces: Piece) -> list[Piece]:
    """One chunk, to be written in sequence. An empty one would end the body."""
    size = sum(map(len, pieces))
    if not size:
        raise ValueError("an empty chunk is the last one")
    return [b"%x\r\n" % size, *pieces, _CRLF]


class LengthReader:
    def __init__(self, octets: int) -> None:
        self._missing = octets
        self.done = octets == 0
        self.leftover = b""

    def feed(self, data: bytes) -> list[Piece]:
        if self.done:
            raise Malformed("bytes behind the end of the body")
        if len(data) < self._missing:
            self._missing -= len(data)
            return [data] if data else []
        # A slice of the whole is the same object: the usual last piece is not copied.
        last, self.leftover = data[: self._missing], data[self._missing :]
        self._missing, self.done = 0, True
        return [last]

    def finish(self) -> None:
        if not self.done:
            raise Malformed("body is shorter than its Content-Length")


class UntilCloseReader:
    def __init__(self) -> None:
        self.done = False
        self.leftover = b""

    def feed(self, data: bytes) -> list[Piece]:
        if self.done:
            raise Malformed("bytes behind the end of the body")
        return [data] if data else []

    def finish(self) -> None:
        self.done = True


class ChunkedReader:
    """Walks chunks; holds at most one size line. Every line ends with CRLF, never with LF alone."""

    def __init__(self) -> None:
        self._missing = 0
        # What must come next, after the payload still missing: b"" for a size line.
        self._expected = b""
        self._held = b""
        self._last = False
        self._failure: Malformed | None = None
        self.done = False
        self.leftover = b""

    def feed(self, data: bytes) -> list[Piece]:
        if self.done:
            raise Malformed("bytes behind the end of the body")
        if self._failure is not None:
            raise self._failure
        try:
            return self._walk(data)
        except Malformed as failure:
            self._failure = failure.alone()
            raise

    def finish(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self.done:
            raise Malformed("chunked body has no end")

    def _walk(self, data: bytes) -> list[Piece]:
        pieces: list[Piece] = []
        at, end = 0, len(data)
        # Cut without copying.
        view = memoryview(data)
        while at < end and not self.done:
            if self._missing:
                piece = view[at : at + self._missing]
                pieces.append(piece)
                self._missing -= len(piece)
                at += len(piece)
            elif self._expected:
                at = self._skip(data, at)
            elif (found := self._whole(data, at)) is not None:
                start, stop = found
                pieces.append(view[start:stop])
                at = stop + 2
            else:
                at = self._size(data, at)
        self.leftover = data[at:]
        return pieces if len(pieces) <= _FEW else [b"".join(pieces)]

    def _whole(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Where the payload of a chunk is that is all there, as most are; else None."""
        line = None if self._held else _WHOLE_SIZE.match(data, at)
        if line is None:
            return None
        start, size = line.end(), int(line[1], 16)
        stop = start + size
        return (start, stop) if size and data[stop : stop + 2] == _CRLF else None

    def _skip(self, data: bytes, at: int) -> int:
        """Pass the CRLF behind a chunk, or behind the last one, where trailers would be.

        RFC 9112, 7.1.2 has trailers kept or discarded; they are refused, as fields nobody checked.
        """
        here = data[at : at + len(self._expected)]
        if not self._expected.startswith(here):
            raise Malformed(
                "chunk trailers are not served" if self._last else "chunk is longer than its size"
            )
        self._expected = self._expected[len(here) :]
        self.done = self._last and not self._expected
        return at + len(here)

    def _size(self, data: bytes, at: int) -> int:
        line = self._held + data[at : at + _SIZE_LINE - len(self._held)]
        end = line.find(_CRLF)
        if end < 0:
            _check_partial(line)
            self._held = line
            return len(data)
        after = at + end + 2 - len(self._held)
        self._held = b""
        self._missing = _chunk_size(line[:end])
        self._last = self._missing == 0
        self._expected = _CRLF
        return after


def _check_partial(line: bytes) -> None:
    """Refuse at once what no further byte can make a size line."""
    digits = line.removesuffix(b"\r")
    if len(line) >= _SIZE_LINE or (line and _SIZE.fullmatch(digits) is None):
        raise Malformed("chunk size is not a plain hexadecimal number")


def _chunk_size(digits: bytes) -> int:
    # int() alone would also take signs, 0x, underscores and spaces.
    if _SIZE.fullmatch(digits) is None:
        raise Malformed("chunk size is not a plain hexadecimal number")
    size = int(digits, 16)
    if size > MAX_BODY:
        raise Malformed("chunk is too large")
    return size
