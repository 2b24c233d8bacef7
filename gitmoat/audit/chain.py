"""Reading a journal back: every line, in order, each chained to the one before."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from gitmoat.audit.journal import FIRST_PREV, LINE_LIMIT, VERSION, line_hash
from gitmoat.audit.segments import list_segments

_WRITER_SECONDS = 0.1


class JournalBroken(Exception):
    """A journal is not what its writer left; `line` counts records, from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line
        self.what = what


@frozen
class Verified:
    """How many records there are, the hash of the last, and the number of the first."""

    count: int
    head: str
    first: int = 1


def verify_journal(path: str | Path, anchor: tuple[int, str] | None = None) -> Verified:
    """Check the whole chain, over all its files.

    `anchor`, a (seq, hash) kept elsewhere, must be part of it. A chain that does not begin with
    record 1 must say itself, further on, that its writer removed what was before.
    """
    with closing(_lines(path)) as lines:  # also when a line is refused
        return _verified(lines, anchor)


def _verified(lines: Iterator[bytes], anchor: tuple[int, str] | None) -> Verified:
    first, seq, head, pruned = 1, 0, FIRST_PREV, 0
    unmet = None if anchor == (0, FIRST_PREV) else anchor
    for number, line in enumerate(lines, 1):
        members = _members(line, seq + 1)
        if number == 1:
            first, head = _beginning(members)
            seq = first - 1
        _check_link(members, seq + 1, head)
        seq, head = seq + 1, line_hash(line)
        pruned = max(pruned, _pruned(members))
        if unmet == (seq, head):
            unmet = None
    if unmet is not None and unmet[0] >= first:
        raise JournalBroken(unmet[0], "this is not the line that was recorded elsewhere")
    if pruned < first - 1:
        raise JournalBroken(first, "what comes before this line is missing")
    return Verified(seq - first + 1, head, first)


def _beginning(members: dict[str, Any]) -> tuple[int, str]:
    """Number of the first record, and what it says of the one before."""
    first, prev = members.get("seq"), members.get("prev")
    if type(first) is not int or first < 1 or not isinstance(prev, str):
        raise JournalBroken(1, "the sequence number is not one")
    return (first, prev) if first > 1 else (1, FIRST_PREV)


def _pruned(members: dict[str, Any]) -> int:
    count = members.get("count") if members.get("event") == "journal.pruned" else 0
    return count if type(count) is int else 0


def kept_head(path: str | Path) -> tuple[int, str] | None:
    """The head that the writer left beside its journal, if it did."""
    where = Path(path)
    try:
        seq, _, digest = where.with_name(f"{where.stem}.head").read_text("ascii").partition(" ")
        return int(seq), digest.strip()
    except (OSError, ValueError):
        return None


def read_events(path: str | Path) -> Iterator[dict[str, Any]]:
    """Every line as a mapping, oldest first, unverified."""
    for number, line in enumerate(_lines(path), 1):
        yield _members(line, number)


def read_lines(path: str | Path) -> Iterator[bytes]:
    """Every line as it was written, oldest first, unverified."""
    return _lines(path)


def _check_link(members: dict[str, Any], number: int, prev: str) -> None:
    if members.get("v") != VERSION:
        raise JournalBroken(number, "the version is unknown")
    if members.get("seq") != number:
        raise JournalBroken(number, "the sequence number is not the next one")
    if members.get("prev") != prev:
        raise JournalBroken(number, "the line before was changed or removed")


def _members(line: bytes, number: int) -> dict[str, Any]:
    try:
        members = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise JournalBroken(number, "not JSON") from problem
    if not isinstance(members, dict):
        raise JournalBroken(number, "not a JSON object")
    return members


def _lines(path: str | Path) -> Generator[bytes, None, None]:
    """Whole lines without their newline; those that were there when reading began."""
    number = 0
    with ExitStack() as stack:
        for file, end in _files(Path(path), stack):
            while file.tell() < end and (line := _whole_line(file)):
                number += 1
                if not line.endswith(b"\n"):
                    raise JournalBroken(number, "the line is not finished")
                yield line[:-1]


def _files(path: Path, stack: ExitStack) -> list[tuple[BinaryIO, int]]:
    """All files of the journal and their sizes now.

    The one that is written is opened first: when its writer begins another meanwhile, it is
    found once more among the older ones, and not read twice.
    """
    last = stack.enter_context(path.open("rb"))
    here = os.fstat(last.fileno())
    found = []
    for segment in list_segments(path.parent, path.name):
        file = stack.enter_context(path.with_name(segment.name).open("rb"))
        if not os.path.samestat(here, os.fstat(file.fileno())):
            found.append((file, os.fstat(file.fileno()).st_size))
    return [*found, (last, here.st_size)]


def _whole_line(journal: BinaryIO) -> bytes:
    """The next line; a writer may be in the middle of the last one, so that is waited for."""
    line = journal.readline(LINE_LIMIT)
    if line and not line.endswith(b"\n") and len(line) < LINE_LIMIT:
        time.sleep(_WRITER_SECONDS)
        line += journal.readline(LINE_LIMIT - len(line))
    return line
