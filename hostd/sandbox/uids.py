"""Chooses three uids for each sandbox from the configured range: without a name, and not in use."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Iterator
from pathlib import Path

from attrs import frozen

from hostd.failures import Failed
from netpolicy.nftables import Uids

_PER_SANDBOX = 3
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))


@frozen
class UidRange:
    base: int
    count: int

    def sandboxes(self) -> int:
        return self.count // _PER_SANDBOX

    def at(self, index: int) -> Uids:
        first = self.base + index * _PER_SANDBOX
        return Uids(sidecar=first, helper=first + 1, untrusted=first + 2)

    def index_of(self, uid: int) -> int | None:
        """The sandbox a uid belongs to, or None for a uid outside the range."""
        index = (uid - self.base) // _PER_SANDBOX
        return index if 0 <= index < self.sandboxes() else None


def next_index(uids: UidRange, last: int, used: Collection[int]) -> int:
    """The first unused index after the last one that was given out, in a circle."""
    total = uids.sandboxes()
    for step in range(1, total + 1):
        index = (last + step) % total
        if index not in used and not _named(uids.at(index)):
            return index
    raise Failed(
        "R101",
        "no uids are left for another sandbox",
        fix="remove sandboxes (hostctl ls, hostctl rm) or widen [uids] in hostd.toml",
    )


def free_index(uids: UidRange, last: int, used: Collection[int], ours: Collection[int]) -> int:
    """As `next_index`, without the uids of running processes other than `ours`.

    A process of an earlier sandbox, or of another hostd, must not have a new sandbox's uid.
    """
    busy = {uids.index_of(uid) for uid in running_uids(ours)}
    return next_index(uids, last, {*used, *(index for index in busy if index is not None)})


def _named(uids: Uids) -> bool:
    """A uid that has a name on this host belongs to an account."""
    return any(_has_name(uid) for uid in (uids.sidecar, uids.helper, uids.untrusted))


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def running_uids(skip: Collection[int] = ()) -> set[int]:
    """The real, effective, saved and file-system uids of every process whose pid is not in
    `skip`."""
    found: set[int] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
        if name.isdigit() and int(name) not in skip:
            found.update(_uids_of(name))
    return found


def _uids_of(pid: str) -> Iterator[int]:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - for each process of the host
        if owner:
            yield owner
            return
        # Root's, or not dumpable: its files in /proc belong to root then (proc(5)).
        with open(f"/proc/{pid}/status", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return
    yield from map(int, text.partition(b"\nUid:")[2].partition(b"\n")[0].split())


def check_subordinate(uids: UidRange, files: Collection[Path] = _SUBORDINATE) -> None:
    """Refuses a range that overlaps a user's subordinate ids (subuid(5))."""
    for file in files:
        for name, first, count in _ranges(file):
            if first < uids.base + uids.count and uids.base < first + count:
                raise Failed(
                    "N104",
                    f"[uids] of hostd.toml overlaps with what {file} gives to {name}",
                    why=f"{first} to {first + count - 1} there, "
                    f"{uids.base} to {uids.base + uids.count - 1} here",
                    fix="choose another uids.base in hostd.toml",
                    exit_code=8,
                )


def _ranges(file: Path) -> Iterator[tuple[str, int, int]]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        name, _, numbers = line.strip().partition(":")
        first, _, count = numbers.partition(":")
        if first.isdigit() and count.isdigit():
            yield name, int(first), int(count)
