"""Reading files below directories that this uid could not reach by their full path.

The instance's root may lie below a 0700 home. Some directories are opened once, with root's
rights; after the uid is dropped everything below them is opened relative to their descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from attrs import frozen

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class NotARegularFile(OSError):
    """A symlink, FIFO, device or directory where a file was expected."""


@frozen
class Anchor:
    path: Path
    descriptor: int


@frozen
class Tree:
    """Open directories; paths below one are reached through it, all others as they are."""

    anchors: tuple[Anchor, ...]

    def open(self, path: Path, flags: int) -> int:
        for anchor in self.anchors:
            if path.is_relative_to(anchor.path):
                below = path.relative_to(anchor.path)
                return os.open(below, flags | os.O_CLOEXEC, dir_fd=anchor.descriptor)
        return os.open(path, flags | os.O_CLOEXEC)

    def names(self, path: Path) -> list[str]:
        """The sorted names in a directory; nothing when there is no such directory."""
        try:
            descriptor = self.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208 - by descriptor
        finally:
            os.close(descriptor)

    def read(self, path: Path, limit: int) -> tuple[bytes, os.stat_result]:
        """A regular file's bytes (never through a final symlink) and what fstat says of it."""
        try:
            descriptor = self.open(path, _READ)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotARegularFile(errno.ELOOP, "is a symlink") from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotARegularFile(errno.EINVAL, "is not a regular file")
            data = file.read(limit + 1)
        if len(data) > limit:
            raise NotARegularFile(errno.EFBIG, f"is larger than {limit} bytes")
        return data, status

    def close(self) -> None:
        for anchor in self.anchors:
            os.close(anchor.descriptor)


def open_tree(*paths: Path) -> Tree:
    """The most specific path first: it wins."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    return Tree(tuple(Anchor(path, os.open(path, flags)) for path in paths))
