"""The part of the tar format that `hostctl cp` speaks: GNU headers, read strictly, held in bounds.

tarfile writes the headers. What comes out of a sandbox is hostile, and tarfile would read a long
name or an extended header of any size into memory; here nothing is held but one block, or one name
that a kernel could take.
"""

from __future__ import annotations

from enum import Enum
from tarfile import GNU_FORMAT, TarInfo
from typing import NamedTuple

BLOCK = 512
MAX_NAME = 4096
MAX_SIZE = 1 << 48
_MAGIC = b"ustar  \0"
_SHORT = 100
_RECORD = 40  # tar fills its last 20 blocks with zeros
_LONG_NAME, _LONG_TARGET = b"L", b"K"
_BYTES = ("utf-8", "surrogateescape")  # gives every name its own bytes back


class Kind(Enum):
    FILE = b"0"
    HARD_LINK = b"1"
    LINK = b"2"
    CHARACTER_DEVICE = b"3"
    BLOCK_DEVICE = b"4"
    DIRECTORY = b"5"
    FIFO = b"6"


class Entry(NamedTuple):
    """`target` is a link's; `size` is a file's and zero for all else."""

    name: bytes
    kind: Kind
    mode: int = 0o644
    size: int = 0
    mtime: int = 0
    target: bytes = b""


class TarMalformed(Exception):
    """The stream is not in the form that the tar in the sandbox was told to write."""


Event = Entry | bytes


class TarReader:
    """Single use; after an entry come the pieces of its content, as many bytes as its size."""

    def __init__(self) -> None:
        self._held = b""
        self._content = 0  # of the entry under way, still to come
        self._padding = 0
        self._long: dict[bytes, bytes] = {}
        self._awaited: tuple[bytes, int] | None = None  # a long name: its type, its size
        self._zero_blocks = 0
        self._broken = False

    @property
    def held(self) -> int:
        return len(self._held)

    def feed(self, data: bytes) -> list[Event]:
        if self._broken:
            raise TarMalformed("the stream was refused already")
        try:
            return self._events(data)
        except TarMalformed:
            self._broken = True
            raise

    def finish(self) -> None:
        if self._zero_blocks < 2 or self._broken:
            raise TarMalformed("the stream ended too early")

    def _events(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        while data:
            if self._content:
                piece, data = data[: self._content], data[self._content :]
                self._content -= len(piece)
                events.append(piece)
            elif self._padding:
                skipped = min(self._padding, len(data))
                data, self._padding = data[skipped:], self._padding - skipped
            else:
                data = self._block(data, events)
        return events

    def _block(self, data: bytes, events: list[Event]) -> bytes:
        """Takes one header, or one long name, if it is there; returns what is left of the data."""
        wanted = BLOCK if self._awaited is None else self._awaited[1]
        missing = wanted - len(self._held)
        self._held, rest = self._held + data[:missing], data[missing:]
        if len(self._held) == wanted:
            block, self._held = self._held, b""
            if self._awaited is None:
                self._header(block, events)
            else:
                self._long_name(*self._awaited, block)
        return rest

    def _long_name(self, kind: bytes, size: int, text: bytes) -> None:
        name, nul, rest = text.partition(b"\0")
        if not nul or rest.strip(b"\0") or kind in self._long:
            raise TarMalformed("a long name is malformed")
        self._long[kind] = name
        self._awaited, self._padding = None, -size % BLOCK

    def _header(self, block: bytes, events: list[Event]) -> None:
        if self._zero_blocks or not block.strip(b"\0"):
            self._end(block)
            return
        kind, size = _checked(block), _number(block[124:136])
        if kind in (_LONG_NAME, _LONG_TARGET):
            if not 0 < size <= MAX_NAME + 1:
                raise TarMalformed("a name is too long")
            self._awaited = kind, size
            return
        entry = self._entry(block, kind, size)
        self._content, self._padding = entry.size, -entry.size % BLOCK
        events.append(entry)

    def _end(self, block: bytes) -> None:
        if block.strip(b"\0") or self._long:
            raise TarMalformed("data follows the end")
        self._zero_blocks += 1
        if self._zero_blocks > _RECORD:
            raise TarMalformed("too many blocks of zeros follow the end")

    def _entry(self, block: bytes, kind: bytes, size: int) -> Entry:
        try:
            known = Kind(kind)
        except ValueError:
            raise TarMalformed("an entry has an unknown type") from None
        name = self._long.pop(_LONG_NAME, None) or block[:_SHORT].partition(b"\0")[0]
        target = self._long.pop(_LONG_TARGET, None) or block[157:257].partition(b"\0")[0]
        if not name or (size and known is not Kind.FILE):
            raise TarMalformed("an entry's header contradicts itself")
        linked = known in (Kind.LINK, Kind.HARD_LINK)
        if bool(target) != linked:
            raise TarMalformed("a link without a target, or a target without a link")
        mode, mtime = _number(block[100:108]) & 0o7777, _number(block[136:148])
        return Entry(name, known, mode, size, mtime, target)


def _checked(block: bytes) -> bytes:
    """The type of an entry, if its header has the magic and a correct checksum."""
    if block[257:265] != _MAGIC or _number(block[148:156]) != _sum(block):
        raise TarMalformed("this is not a header of tar's GNU format")
    return block[156:157]


def _sum(block: bytes) -> int:
    return sum(block[:148]) + sum(block[156:]) + 8 * ord(" ")


def _number(field: bytes) -> int:
    """Octal digits, or GNU tar's base-256 form of a number that has too many of them."""
    if field[:1] == b"\x80":
        value = int.from_bytes(field[1:], "big")
    else:
        digits = field.rstrip(b"\0 ")
        if not digits.isdigit() or b"8" in digits or b"9" in digits:
            raise TarMalformed("a number is not octal")
        value = int(digits, 8)
    if value > MAX_SIZE:
        raise TarMalformed("a number is too large")
    return value


END = bytes(2 * BLOCK)


def padding(size: int) -> bytes:
    """What follows a content of this size."""
    return bytes(-size % BLOCK)


def format_entry(entry: Entry) -> bytes:
    """The header, with what precedes it when a name is long; a directory's name gets a slash."""
    made = TarInfo(entry.name.decode(*_BYTES))
    made.type, made.mode, made.size = entry.kind.value, entry.mode, entry.size
    made.mtime, made.linkname = entry.mtime, entry.target.decode(*_BYTES)
    return made.tobuf(GNU_FORMAT, *_BYTES)
