"""Which pages of a forked process are its own, and how they differ from its parent's."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from attrs import frozen

_PAGE = 4096
_WORD = 8
_PRESENT, _EXCLUSIVE, _FILE = 1 << 63, 1 << 56, 1 << 61  # proc_pid_pagemap(5)
_FEW = 4


class Change(Enum):
    NONE = "the same"
    FEW = "up to 4 words"
    MANY = "more"
    NEW = "not the parent's"


@frozen
class Region:
    start: int
    end: int
    name: str

    @property
    def kind(self) -> str:
        if not self.name:
            return "Python's allocator"
        return {"[heap]": "malloc", "[stack]": "stack"}.get(self.name, "data of programs")


def private_pages(pid: int) -> dict[str, Counter[Change]]:
    """Pages that only `pid` has, by where they lie."""
    parent = _parent(pid)
    found: dict[str, Counter[Change]] = {}
    own, theirs = (os.open(f"/proc/{each}/mem", os.O_RDONLY) for each in (pid, parent))
    try:
        for region in _regions(pid):
            for address in _exclusive(pid, region):
                change = _change(_read(own, address), _read(theirs, address))
                found.setdefault(region.kind, Counter())[change] += 1
    finally:
        os.close(own)
        os.close(theirs)
    return found


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _regions(pid: int) -> Iterator[Region]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, _, _, _, _, *name = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in span.split("-"))
        if not name or not name[0].startswith("[v"):  # the kernel's own
            yield Region(start, end, name[0].strip() if name else "")


def _exclusive(pid: int, region: Region) -> Iterator[int]:
    with Path(f"/proc/{pid}/pagemap").open("rb", 0) as file:
        file.seek(region.start // _PAGE * _WORD)
        data = file.read((region.end - region.start) // _PAGE * _WORD)
    for number, (entry,) in enumerate(struct.iter_unpack("<Q", data)):
        if entry & _PRESENT and entry & _EXCLUSIVE and not entry & _FILE:
            yield region.start + number * _PAGE


def _read(memory: int, address: int) -> bytes:
    try:
        return os.pread(memory, _PAGE, address)
    except OSError:  # nothing is there
        return b""


def _change(own: bytes, theirs: bytes) -> Change:
    if len(own) != len(theirs):
        return Change.NEW
    words = range(0, len(own), _WORD)
    count = sum(own[at : at + _WORD] != theirs[at : at + _WORD] for at in words)
    if count == 0:
        return Change.NONE
    return Change.FEW if count <= _FEW else Change.MANY
