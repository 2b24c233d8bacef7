"""Disk space kept for what must be recorded even when a disk is full.

It lies behind the end of the journal's own file (fallocate(2) with FALLOC_FL_KEEP_SIZE), so a
record that needs it is written into it. A file that is given up would free the space for
everybody: the sandbox that filled the disk, and goes on writing, would be there first.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from attrs import define, field

from gitmoat.audit.events import Claim, Event

SIZE = 4 << 20
OWN = 4  # one part of so many is for grants and ends: no record that a sandbox causes gets there
SHARES = 128  # and one of so many is the most that one sandbox gets
_AHEAD = 256 << 10  # taken at once, so that not every record asks the file system
_KEEP_SIZE = 1
_UNABLE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_FULL = "the disk is full but for what is kept for git, grants and revocations"
_SHARE_USED = "the disk is full, and this sandbox has used its share of what is kept"
_ALL_USED = "the disk is full, and what was kept is used up"

_libc = ctypes.CDLL(None, use_errno=True)


def allocate(fd: int, start: int, length: int) -> None:
    """Blocks for this range; the file's size stays. What has blocks already keeps them."""
    if _libc.fallocate(fd, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@define(eq=False)
class Reserve:
    """Of one file that only grows. `size` 0 keeps nothing."""

    _fd: int
    size: int = SIZE
    _allocate: Callable[[int, int, int], None] = allocate
    real: bool = field(init=False, default=True)  # False: this file system keeps no space
    _held: int = field(init=False, default=0)  # the file has blocks up to here
    _used: dict[str, int] = field(init=False, factory=dict)  # of the reserve, by sandbox

    def __attrs_post_init__(self) -> None:
        if self.size:  # what a writer before us took is there still
            self._held = os.fstat(self._fd).st_blocks * 512

    def hold(self, end: int) -> bool:
        """Whether all of it is kept behind `end`, taking it now if it can be had."""
        if not self.size or end + self.size <= self._held:
            return True
        if not (self._take(end, self.size + _AHEAD) or self._take(end, self.size)):
            return False
        self._used.clear()
        return True

    def refuses(self, event: Event, end: int, length: int) -> str | None:
        """Why this record must not have space that is kept; None where it may."""
        match event.claim:
            case Claim.NOTHING:
                return _FULL
            case Claim.SHARE:
                after = self._used.get(event.payer, 0) + length
                if after > self.size // SHARES or end + length + self.size // OWN > self._held:
                    return _SHARE_USED
                self._used[event.payer] = after
        fits = end + length <= self._held or self._take(end, length)
        return None if fits else _ALL_USED

    def of_next(self, fd: int) -> Reserve:
        """The same for the file that follows this one."""
        return Reserve(fd, self.size, self._allocate)

    def lost(self) -> None:
        """The file was cut at its end, and with it went what was kept behind that."""
        self._held = 0

    def _take(self, end: int, length: int) -> bool:
        try:
            self._allocate(self._fd, end, length)
        except OSError as problem:
            self.real = problem.errno not in _UNABLE
            return not self.real
        # Where zeros are compressed, or space is not reserved at all (ZFS), no block shows up.
        self.real = os.fstat(self._fd).st_blocks * 512 >= end + length
        self._held = max(self._held, end + length)
        return True
