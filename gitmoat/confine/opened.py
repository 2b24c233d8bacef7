"""Directories as descriptors: opened without following any symlink, known by device and inode."""

from __future__ import annotations

import os
import struct

from gitmoat.confine import linux

_OPENAT2 = 437  # the same on every architecture
_AT_FDCWD = -100
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_IN_ROOT = 0x10
_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

Identity = tuple[int, int]


def open_directory(path: str) -> int:
    """An O_PATH descriptor; OSError with ELOOP when any part of the path is a symlink.

    O_NOFOLLOW would look at the last part only (openat2(2), RESOLVE_NO_SYMLINKS).
    """
    if "\0" in path:
        raise ValueError("embedded null byte")
    how = struct.pack("=QQQ", _FLAGS, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    return linux.system_call(
        "openat2", _OPENAT2, _AT_FDCWD, os.fsencode(path) + b"\0", how, len(how)
    )


def open_inside(root: int, path: str) -> int:
    """An O_PATH descriptor of what a process with this root directory calls by that path; links
    lead nowhere out of it."""
    how = struct.pack(
        "=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS
    )
    return linux.system_call("openat2", _OPENAT2, root, os.fsencode(path) + b"\0", how, len(how))


def identity(descriptor: int) -> Identity:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def lineage(descriptor: int) -> list[Identity]:
    """The directory itself, then what it lies in, up to the root, as it is at this moment."""
    found = [identity(descriptor)]
    here = os.dup(descriptor)
    try:
        while True:
            above = os.open("..", _FLAGS, dir_fd=here)
            os.close(here)
            here = above
            if identity(here) == found[-1]:
                return found
            found.append(identity(here))
    finally:
        os.close(here)
