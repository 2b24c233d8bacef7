"""The files of one journal: the one that is written, and those before it, numbered by their start.

`audit.ndjson` is the last part of the chain; `audit-000000004711.ndjson` begins with record 4711.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from attrs import frozen

_DIGITS = 12


@frozen(order=True)
class Segment:
    """A part that is written no more; `first` is the number of its first record."""

    first: int
    name: str


def segment_name(journal: str, first: int) -> str:
    stem, _, suffix = journal.rpartition(".")
    return f"{stem}-{first:0{_DIGITS}d}.{suffix}"


def list_segments(folder: int | str | Path, journal: str) -> list[Segment]:
    """Oldest first."""
    stem, _, suffix = journal.rpartition(".")
    known = re.compile(rf"{re.escape(stem)}-([0-9]{{{_DIGITS}}})\.{re.escape(suffix)}")
    found = ((known.fullmatch(name), name) for name in os.listdir(folder))  # noqa: PTH208
    return sorted(Segment(int(match[1]), name) for match, name in found if match is not None)
