"""A file or directory of the host as a tar stream, read without following any symlink."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from hostctl.copy.tarstream import END, Entry, Kind, format_entry, padding
from hostctl.failure import Failure

_CHUNK = 65536
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Packer:
    """Counts what it packs; says what it leaves out."""

    def __init__(self, skipped: Callable[[str], None]) -> None:
        self._skipped = skipped
        self.entries = 0
        self.size = 0

    def stream(self, parent: int, source: bytes, name: bytes) -> Iterator[bytes]:
        """`source` in the directory `parent`, as `name` and what lies below it."""
        yield from self._one(parent, source, name)
        yield END

    def _one(self, directory: int, name: bytes, path: bytes) -> Iterator[bytes]:
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(there.st_mode):
            target = os.readlink(name, dir_fd=directory)
            yield self._header(Entry(path, Kind.LINK, 0o777, 0, _mtime(there), target))
        elif stat.S_ISDIR(there.st_mode):
            yield from self._directory(directory, name, path)
        elif stat.S_ISREG(there.st_mode):
            yield from self._file(directory, name, path)
        else:
            self._skipped(f"skipped {os.fsdecode(path)}: neither a file nor a directory")

    def _directory(self, parent: int, name: bytes, path: bytes) -> Iterator[bytes]:
        directory = os.open(name, _READ | os.O_DIRECTORY, dir_fd=parent)
        try:
            there = os.fstat(directory)
            mode = there.st_mode & 0o777
            yield self._header(Entry(path + b"/", Kind.DIRECTORY, mode, 0, _mtime(there)))
            for inner in _names(directory):
                yield from self._one(directory, inner, path + b"/" + inner)
        finally:
            os.close(directory)

    def _file(self, directory: int, name: bytes, path: bytes) -> Iterator[bytes]:
        with open(os.open(name, _READ, dir_fd=directory), "rb", buffering=0) as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode):
                raise _changed(path)
            left, mode = there.st_size, there.st_mode & 0o777
            yield self._header(Entry(path, Kind.FILE, mode, left, _mtime(there)))
            while left:
                piece = file.read(min(left, _CHUNK))
                if not piece:
                    raise _changed(path)
                left -= len(piece)
                yield piece
            yield padding(there.st_size)

    def _header(self, entry: Entry) -> bytes:
        self.entries += 1
        self.size += entry.size
        return format_entry(entry)


def _names(directory: int) -> list[bytes]:
    with os.scandir(directory) as found:
        return sorted(os.fsencode(entry.name) for entry in found)


def _mtime(there: os.stat_result) -> int:
    return max(0, int(there.st_mtime))


def _changed(path: bytes) -> Failure:
    what = f"{Path(os.fsdecode(path)).name} changed while it was read"
    return Failure("R112", what, fix="copy it again while nothing writes to it")
