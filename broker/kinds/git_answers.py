"""Follows the pkt-lines of an upstream's answer while it streams by.

Text that git prints raw (side-band 2 and 3, ERR lines, a push's report) has its control bytes
replaced, byte for byte, so no length changes; and an answer that grows too long is ended between
two pkt-lines with a message, instead of being cut off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from attrs import define, field

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.report_status import refuse_fetch

_DIGITS = re.compile(rb"[0-9a-fA-F]{4}")
_KEPT = b"\t\n\r"
_CLEAN = bytes(
    ord("?") if (byte < 32 and byte not in _KEPT) or byte == 127 else byte for byte in range(256)
)
# U+0080..9F in UTF-8, which terminals obey like ESC sequences. Only the second byte is replaced:
# the first may have gone in an earlier piece.
_C1 = re.compile(rb"(?<=\xc2)[\x80-\x9f]")
_BANDS = (1, 2, 3)
_PACK, _PROGRESS = 1, 2
_TEXT_STARTS = (2, 3, ord("E"))
_LONGEST_LINE = 900
# How finely an answer may be sliced: so many pkt-lines, and one more for each so many bytes. The
# shortest that git servers send many of are refs and ACKs, of 49 bytes and more; a push's report
# has lines of 20. Flushes, keepalives and progress are far fewer than those that are free.
FREE_LINES = 16384
LEAST_LINE = 40
_LEAST_REPORTED = 16


@lru_cache(maxsize=1024)
def _length_of(digits: bytes) -> int:
    """What a pkt-line announces; 3, which none can, for what is no such line."""
    return int(digits, 16) if _DIGITS.fullmatch(digits) else 3


def clean(text: bytes, before: bytes = b"") -> bytes:
    """The same number of bytes, none of which moves a cursor or changes a terminal.

    `before` is the byte that was shown in front of them, if there was one.
    """
    return _C1.sub(b"?", before + text.translate(_CLEAN))[len(before) :]


@define(eq=False)
class AnswerFilter:
    """`report` says that every payload is text, as in the answer to a push."""

    limit: int
    report: bool = False
    _passed: int = field(default=0, init=False)
    _digits: bytes = field(default=b"", init=False)
    _left: int = field(default=0, init=False)
    _fresh: bool = field(default=False, init=False)
    _text: bool = field(default=False, init=False)
    _banded: bool = field(default=False, init=False)
    _lines: int = field(default=0, init=False)
    _most: int = field(default=FREE_LINES, init=False)
    _shown: bytes = field(default=b"", init=False)  # the last byte of text; git joins pkts
    spoken: bool = field(default=False, init=False)  # anything but progress has come
    raw: bool = field(default=False, init=False)
    over: bool = field(default=False, init=False)
    too_fine: bool = field(default=False, init=False)
    stopped: bool = field(default=False, init=False)

    def stop(self) -> None:
        """Let no further pkt-line begin, whatever the limit was."""
        self.stopped = True
        self.limit = min(self.limit, self._passed)

    def feed(self, data: bytes) -> bytes:
        """What may go on of `data`; once `over`, `between` says whether a farewell is possible.

        Past the limit the rest of a running pkt-line is let through, so that it is whole.
        """
        texts: list[tuple[int, int]] = []
        least = _LEAST_REPORTED if self.report else LEAST_LINE
        self._most = FREE_LINES + (self._passed + len(data)) // least
        end = self._walk(data, texts)
        if self.raw and self._passed + end > self.limit:
            self.over = True
        self._passed += end
        kept = data if end == len(data) else data[:end]
        return self._cleaned(kept, texts) if texts else kept

    @property
    def between(self) -> bool:
        """Whether all pkt-lines so far are whole, so that one of ours may follow."""
        return not (self.raw or self._digits or self._left)

    def farewell(self, lines: Sequence[str]) -> bytes:
        """Ends an answer to a fetch early, in the way git shows."""
        if not self._banded:
            return refuse_fetch("\n".join(lines))
        text = "\n".join(line[:_LONGEST_LINE] for line in lines).encode("ascii", "replace")
        return format_data(b"\x03" + text[:_LONGEST_LINE] + b"\n") + FLUSH

    def _walk(self, data: bytes, texts: list[tuple[int, int]]) -> int:
        at, end = 0, len(data)
        while at < end and not self.raw:
            if self._left:
                at = self._payload(data, at, texts)
            elif not self._digits and self._ends(at):
                return at
            else:
                at = self._skip(data, at) or self._length(data, at)
        return end

    def _ends(self, at: int) -> bool:
        """Whether no further pkt-line may begin here."""
        self.too_fine = self._lines > self._most
        self.over = self.too_fine or self._passed + at >= self.limit
        return self.over

    def _skip(self, data: bytes, at: int) -> int:
        """Behind the whole pkt-lines that are no text, as in advertisements and packs; 0: none."""
        if self._digits or self.report:
            return 0
        begun, end, room = at, len(data), self.limit - self._passed
        banded, lines = self._banded, 0
        while at < room:
            length = _length_of(data[at : at + 4])
            if length <= 4 or at + length > end or (first := data[at + 4]) in _TEXT_STARTS:
                break
            banded = banded or first == _PACK
            at += length
            lines += 1
        self._banded = banded
        self._lines += lines
        self.spoken = self.spoken or at > begun
        return at if at > begun else 0

    def _length(self, data: bytes, at: int) -> int:
        part = data[at : at + 4 - len(self._digits)]
        self._digits += part
        if len(self._digits) == 4:
            self._start(self._digits)
            self._digits = b""
        return at + len(part)

    def _start(self, digits: bytes) -> None:
        # A pack without side-band is no pkt-line at all: PACK is not hexadecimal.
        length = _length_of(digits)
        self._lines += 1
        self.raw = length == 3
        self._left = max(0, length - 4)
        self._fresh = True

    def _payload(self, data: bytes, at: int, texts: list[tuple[int, int]]) -> int:
        end = min(at + self._left, len(data))
        self._left -= end - at
        start = at
        if self._fresh:
            start += self._first(data[at])
        if self._text and start < end:
            texts.append((start, end))
        return end

    def _first(self, byte: int) -> int:
        """Learns from a payload's first byte; 1 when that byte is no text itself."""
        self._fresh = False
        self._text = self.report or byte in _TEXT_STARTS
        self._banded = self._banded or byte in _BANDS
        self.spoken = self.spoken or byte != _PROGRESS
        return int(byte in _BANDS)

    def _cleaned(self, data: bytes, texts: Sequence[tuple[int, int]]) -> bytes:
        pieces: list[bytes] = []
        done = 0
        for start, end in texts:
            pieces += (data[done:start], clean(data[start:end], self._shown))
            self._shown = data[end - 1 : end]
            done = end
        pieces.append(data[done:])
        return b"".join(pieces)
