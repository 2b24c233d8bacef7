"""Writes what a sandbox sent below one directory of the host, and nowhere else.

Every place is reached by descriptor, component by component, without following a symlink. Kept of
an entry: its name, its content, whether it is executable, its time. Owner is who runs hostctl.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EISDIR
from typing import NamedTuple

from hostctl.copy.tarstream import Entry, Event, Kind
from hostctl.failure import Failure, plain

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST_MOMENT = 1 << 40


class Bounds(NamedTuple):
    entries: int
    size: int


class Refused(Exception):
    """This entry is refused; the rest of the stream may still be unpacked."""


class Extractor:
    """Takes the events of a TarReader. `top` is the name in the stream, `name` the one here."""

    def __init__(
        self,
        parent: int,
        top: bytes,
        name: bytes,
        bounds: Bounds,
        skipped: Callable[[str], None] | None,
    ) -> None:
        self._parent = parent
        self._top = top
        self._name = name
        self._bounds = bounds
        self._skipped = skipped  # None: an entry that cannot be taken ends the copy
        self._file: int | None = None
        self._left = 0
        self._mtime = 0
        self.entries = 0
        self.size = 0

    def take(self, event: Event) -> None:
        if isinstance(event, Entry):
            self._count(event)
            self._begin(event)
        else:
            self._write(event)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _count(self, entry: Entry) -> None:
        self.entries += 1
        self.size += entry.size
        if self.entries > self._bounds.entries:
            what, fix = f"there are more than {self._bounds.entries} files", "--max-entries N"
        elif self.size > self._bounds.size:
            what, fix = f"there are more than {self._bounds.size} bytes", "--max-size SIZE"
        else:
            return
        raise Failure("R112", "the copy is too large", what, f"copy less at once, or {fix}")

    def _begin(self, entry: Entry) -> None:
        parts = self._parts(entry)
        try:
            self._make(entry, parts)
        except Refused as refusal:
            text = f"{plain(entry.name.decode(errors='replace'))}: {refusal}"
            if self._skipped is None:
                fix = "--skip leaves such entries out"
                raise Failure("R112", "an entry cannot be copied", text, fix) from None
            self._skipped(f"skipped {text}")
            self.entries -= 1

    def _parts(self, entry: Entry) -> list[bytes]:
        """Where the entry goes, as names; no tar sends a path that leads elsewhere by mistake."""
        first, *rest = entry.name.removesuffix(b"/").split(b"/")
        if first != self._top or any(part in (b"", b".", b"..") for part in rest):
            why = f"it sent {plain(entry.name.decode(errors='replace'))!r}"
            fix = "do not use what was copied"
            raise Failure("R112", "the sandbox sent what was not asked for", why, fix)
        return [self._name, *rest]

    def _make(self, entry: Entry, parts: list[bytes]) -> None:
        if entry.kind not in (Kind.FILE, Kind.DIRECTORY, Kind.LINK):
            raise Refused("neither a file, a directory nor a symbolic link")
        if entry.kind is Kind.LINK and not stays_inside(entry.target, len(parts) - 2):
            raise Refused("a symbolic link that points outside the copy")
        *above, name = parts
        with self._opened(above) as directory:
            if entry.kind is Kind.DIRECTORY:
                _make_directory(name, directory)
                return
            _clear(name, directory)
            if entry.kind is Kind.LINK:
                os.symlink(entry.target, name, dir_fd=directory)
            else:
                self._open_file(entry, name, directory)

    @contextmanager
    def _opened(self, above: list[bytes]) -> Iterator[int]:
        here = os.dup(self._parent)
        try:
            for name in above:
                inner = _open_directory(name, here)
                os.close(here)
                here = inner
            yield here
        finally:
            os.close(here)

    def _open_file(self, entry: Entry, name: bytes, directory: int) -> None:
        self._file = os.open(name, _NEW_FILE, file_mode(entry.mode), dir_fd=directory)
        self._left, self._mtime = entry.size, min(entry.mtime, _LAST_MOMENT)
        self._finish_file()

    def _write(self, data: bytes) -> None:
        self._left -= len(data)
        while data and self._file is not None:
            data = data[os.write(self._file, data) :]
        self._finish_file()

    def _finish_file(self) -> None:
        if self._file is not None and self._left == 0:
            os.utime(self._file, (self._mtime, self._mtime))
            self.close()


def file_mode(mode: int) -> int:
    """No setuid, no writing for others, never unreadable to its owner; our umask applies."""
    kept = mode & 0o755 | 0o600
    return kept if mode & 0o100 else kept & ~0o111


def stays_inside(target: bytes, depth: int) -> bool:
    """Whether a link `depth` directories below the top can only lead to what was copied.

    `..` only in front: behind a name it could go up from wherever another link leads.
    """
    if not target or target.startswith(b"/"):
        return False
    parts = target.split(b"/")
    up = 0
    while up < len(parts) and parts[up] == b"..":
        up += 1
    return up <= depth and b".." not in parts[up:]


def _open_directory(name: bytes, directory: int) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as problem:
        raise _in_the_way(name, problem) from None


def _make_directory(name: bytes, directory: int) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        os.close(_open_directory(name, directory))


def _clear(name: bytes, directory: int) -> None:
    """Removes what has the name already, as tar does; it is never written to or followed."""
    try:
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(there.st_mode):
        raise _in_the_way(name, IsADirectoryError(EISDIR, "it is a directory"))
    os.unlink(name, dir_fd=directory)


def _in_the_way(name: bytes, problem: OSError) -> Failure:
    text = plain(name.decode(errors="replace"))
    why = problem.strerror or type(problem).__name__
    return Failure(
        "R112", f"{text} cannot be replaced by the copy", why, "copy to an empty directory"
    )
