"""Compressed request bodies, followed while they stream by: never unpacked into memory."""

import zlib
from typing import Final

from gitmoat.wire.malformed import Malformed

_PIECE: Final = 1 << 16
_GZIP: Final = 31  # zlib's number for: a gzip member with its header and checksum


class GzipReader:
    """Checks one gzip member of at most `limit` bytes unpacked; single use and sticky.

    RFC 1952, 2.2 allows more than one member. Servers differ in what they make of a second one, of
    bytes behind the first and of a checksum that does not fit, so none of these is sent to one.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._inflate = zlib.decompressobj(_GZIP)
        self._failure: Malformed | None = None

    @property
    def done(self) -> bool:
        return self._inflate.eof

    def feed(self, data: bytes) -> None:
        """Raise unless `data` may follow what came before."""
        if self._failure is not None:
            raise self._failure
        try:
            self._walk(data)
        except Malformed as failure:
            self._failure = failure.alone()
            raise

    def finish(self) -> None:
        """The body has ended: raise unless the member has, too."""
        if self._failure is not None:
            raise self._failure
        if not self.done:
            raise Malformed("gzip body has no end")

    def _walk(self, data: bytes) -> None:
        if self.done and data:
            raise Malformed("gzip body has more than one member")
        more = True
        while more and not self.done:
            unpacked = self._unpack(data)
            self._left -= len(unpacked)
            if self._left < 0:
                raise Malformed("gzip body unpacks to too much", 413)
            data = self._inflate.unconsumed_tail
            more = bool(data) or len(unpacked) == _PIECE
        if self._inflate.unused_data:
            raise Malformed("gzip body has more than one member")

    def _unpack(self, data: bytes) -> bytes:
        try:
            return self._inflate.decompress(data, _PIECE)
        except zlib.error:
            raise Malformed("body is not gzip") from None
