"""Reading a journal back: every line, in order, each chained to the one before."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from audit.journal import FIRST_PREV, LINE_LIMIT, VERSION, line_hash

_WRITER_SECONDS = 0.1


class JournalBroken(Exception):
    """A journal is not what its writer left; `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line
        self.what = what


@frozen
class Verified:
    count: int
    head: str


def verify_journal(path: str | Path, anchor: tuple[int, str] | None = None) -> Verified:
    """Check the whole chain; `anchor`, a (seq, hash) kept elsewhere, must be part of it."""
    count, head = 0, FIRST_PREV
    unmet = None if anchor == (0, FIRST_PREV) else anchor
    for line in _lines(path):
        _check_link(line, count + 1, head)
        count, head = count + 1, line_hash(line)
        if unmet == (count, head):
            unmet = None
    if unmet is not None:
        raise JournalBroken(unmet[0], "this is not the line that was recorded elsewhere")
    return Verified(count, head)


def read_events(path: str | Path) -> Iterator[dict[str, Any]]:
    """Every line as a mapping, oldest first, unverified."""
    for number, line in enumerate(_lines(path), 1):
        yield _members(line, number)


def _check_link(line: bytes, number: int, prev: str) -> None:
    members = _members(line, number)
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


def _lines(path: str | Path) -> Iterator[bytes]:
    """Whole lines without their newline; those that were there when reading began."""
    number = 0
    with open(path, "rb") as journal:
        end = os.fstat(journal.fileno()).st_size
        while journal.tell() < end and (line := _whole_line(journal)):
            number += 1
            if not line.endswith(b"\n"):
                raise JournalBroken(number, "the line is not finished")
            yield line[:-1]


def _whole_line(journal: BinaryIO) -> bytes:
    """The next line; a writer may be in the middle of the last one, so that is waited for."""
    line = journal.readline(LINE_LIMIT)
    if line and not line.endswith(b"\n") and len(line) < LINE_LIMIT:
        time.sleep(_WRITER_SECONDS)
        line += journal.readline(LINE_LIMIT - len(line))
    return line
