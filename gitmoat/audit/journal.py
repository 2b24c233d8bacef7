"""An append-only file of events: one JSON line each, chained by hash, on disk before we go on."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

from attrs import frozen

from gitmoat.audit.events import Event, JournalPruned, JournalRepaired, RecordsDropped
from gitmoat.audit.reserve import SIZE as RESERVE
from gitmoat.audit.reserve import Reserve
from gitmoat.audit.resuming import (
    FIRST_PREV,
    LINE_LIMIT,
    Head,
    JournalUnavailable,
    end_before,
    line_hash,
    open_file,
    resume,
    unavailable,
)
from gitmoat.audit.segments import list_segments, segment_name

__all__ = ["FIRST_PREV", "LINE_LIMIT", "Journal", "JournalUnavailable", "Sizes", "line_hash"]

VERSION = 1
_JSON = json.JSONEncoder(separators=(",", ":"))
_LEAST_ROOM, _LEAST_FILES = 1 << 20, 64  # a disk with less is as good as full


@frozen
class Sizes:
    """Bytes of one file before the next is begun, how many older ones stay, and the reserve."""

    segment: int = 64 << 20
    keep: int = 64
    reserve: int = RESERVE


def open_journal(
    path: str | Path,
    host: str,
    now: Callable[[], float],
    *,
    uid: int | None = None,
    sync: Callable[[int], None] = os.fsync,
    sizes: Sizes = Sizes(),  # noqa: B008 - frozen
) -> Journal:
    """The journal at `path`, made if missing and owned by `uid` (default: us), ready to go on.

    A last line without its newline was never acknowledged; it is cut off, and the next record
    says so.
    """
    where, owner = Path(path), os.geteuid() if uid is None else uid
    try:
        folder = os.open(where.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise unavailable(problem) from problem
    opened = [folder]
    try:
        opened.append(fd := open_file(folder, where.name, owner))
        head, torn = resume(fd, end_before(folder, where.name))
    except JournalUnavailable:
        for each in opened:
            os.close(each)
        raise
    _remove(folder, f"{where.stem}.reserve")  # what version 0.1 kept space with
    place = _Place(folder, where.name, str(where.parent), owner, sizes)
    return Journal(place, fd, head, torn, host, now, sync)


@frozen
class _Place:
    folder: int
    name: str
    path: str
    uid: int
    sizes: Sizes


class Journal:
    """The one writer of a journal; made by `open_journal`."""

    def __init__(
        self,
        place: _Place,
        fd: int,
        head: Head,
        torn: bytes,
        host: str,
        now: Callable[[], float],
        sync: Callable[[int], None],
    ) -> None:
        self._place, self._folder, self._name, self._fd = place, place.folder, place.name, fd
        self._reserve = Reserve(fd, place.sizes.reserve)
        self._head = head
        self._excess = bool(torn)  # the file is longer than the chain
        self._owed: tuple[Event, ...] = (_repair(torn),) if torn else ()
        self._unwanted: tuple[str, ...] = ()
        self._held: int | None = None  # being synced
        self._host, self._now, self._sync = host, now, sync
        self._dropped = 0
        self._working = True  # whether the last attempt to write went well
        self._reserve.hold(head.offset)

    def record(self, event: Event, durable: bool = True) -> int:
        """Append an event and return its number; when this returns it is on disk if `durable`.

        On JournalUnavailable nothing was recorded; the next call tries afresh.
        """
        worked, self._working = self._working, False
        data, head, dropped = self._admit(event)
        self._append(data, durable)
        # A line that nobody waits for says nothing of the disk: what failed there still does.
        self._head, self._owed, self._working = head, (), durable or worked
        self._dropped -= dropped
        if self._unwanted:
            self._remove_unwanted()
        return head.seq

    def _admit(self, event: Event) -> tuple[bytes, Head, int]:
        """What is written, where it ends, and how many dropped records it tells of.

        JournalUnavailable where the disk is full and nothing is kept for this event.
        """
        if self._reserve.hold(self._head.offset):
            data, head = self._chain(self._told(event))
            if self._head.offset and head.offset > self._place.sizes.segment:
                self._begin_file()
                data, head = self._chain(self._told(event))
            return data, head, self._dropped
        data, head = self._chain((*self._owed, event))
        why = self._reserve.refuses(event, self._head.offset, len(data))
        if why is not None:
            self._dropped += 1
            raise JournalUnavailable(why)
        return data, head, 0

    def _told(self, event: Event) -> tuple[Event, ...]:
        """With what must be said before it."""
        dropped = (RecordsDropped(count=self._dropped),) if self._dropped else ()
        return (*self._owed, *dropped, event)

    def syncing(self) -> Callable[[], None]:
        """What syncs all that was recorded, in any thread; one at a time, and `synced` follows.

        Until then the file stays open, also where another one is begun meanwhile.
        """
        self._held = self._fd
        return partial(self._sync, self._fd)

    def synced(self, problem: BaseException | None = None) -> JournalUnavailable | None:
        """It is over; what to tell those who waited for it, if it failed."""
        held, self._held = self._held, None
        if held is not None and held != self._fd:
            os.close(held)
        if problem is None:
            return None
        self._working = False
        return unavailable(problem)

    def _append(self, data: bytes, durable: bool) -> None:
        try:
            self._check_place()
            self._drop_excess()
            self._excess = True
            _write_all(self._fd, data)
            if durable:
                self._sync(self._fd)
        except OSError as problem:
            self._take_back()
            raise unavailable(problem) from problem
        self._excess = False

    def problem(self) -> str | None:
        """What is wrong with the journal or its disk, and what to do; None when nothing is."""
        if not self._works():
            return f"the audit journal cannot be written (B103): look at {self._place.path}"
        if not self._reserve.hold(self._head.offset) or self._is_full():
            kept = "only git, grants and revocations have space kept for their records (B103)"
            return f"the disk of the audit journal is full: {kept}; free some at {self._place.path}"
        return None

    def keeps_space(self) -> bool:
        """False on a file system that keeps none: where it is full nothing can be recorded."""
        return self._reserve.real

    def _works(self) -> bool:
        """After a failure it is found out anew, without a record."""
        if not self._working:
            try:
                self._check_place()
                self._sync(self._fd)
                self._working = True
            except (OSError, JournalUnavailable):
                pass
        return self._working

    def _is_full(self) -> bool:
        """Also before a record has met with it. Some file systems do not count files."""
        found = os.fstatvfs(self._fd)
        blocks, files = (
            (found.f_bavail, found.f_favail) if os.geteuid() else (found.f_bfree, found.f_ffree)
        )
        little = found.f_blocks > 0 and blocks * found.f_frsize < _LEAST_ROOM
        return little or (found.f_files > 0 and files < _LEAST_FILES)

    def head(self) -> tuple[int, str]:
        """Number and hash of the last line; (0, zeros) before the first."""
        return self._head.seq, self._head.hash

    def keep_head(self) -> None:
        """Writes the head beside the journal, for `verify` while nobody runs who knows it."""
        name = f"{Path(self._name).stem}.head"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(f"{name}.new", flags, 0o600, dir_fd=self._folder)
            try:
                _write_all(fd, b"%d %s\n" % (self._head.seq, self._head.hash.encode()))
            finally:
                os.close(fd)
            os.rename(f"{name}.new", name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            pass  # an older head is true too

    def close(self) -> None:
        self.keep_head()
        self.synced()
        os.close(self._fd)
        os.close(self._folder)

    # A file is full: the next one

    def _begin_file(self) -> None:
        """Goes on in a new file; where that fails, in the old one."""
        fresh, closed = f"{self._name}.new", segment_name(self._name, self._head.first)
        try:
            self._check_place()
            os.fsync(self._fd)
            fd = self._make_file(fresh)
        except (OSError, JournalUnavailable):
            return
        reserve = self._reserve.of_next(fd)
        try:
            if not reserve.hold(0):  # what this file keeps must not be left for less
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            _rename(self._folder, self._name, closed)
        except OSError:
            os.close(fd)
            _remove(self._folder, fresh)
            return
        try:
            _rename(self._folder, fresh, self._name)
            os.fsync(self._folder)
        except OSError:
            _rename(self._folder, closed, self._name)
            os.close(fd)
            return
        os.ftruncate(self._fd, self._head.offset)  # what was kept behind its end is free
        if self._fd != self._held:
            os.close(self._fd)
        self._fd, self._reserve, self._excess = fd, reserve, False
        self._head = Head(self._head.seq, self._head.hash, 0, self._head.seq + 1)
        self._prune()

    def _make_file(self, name: str) -> int:
        _remove(self._folder, name)  # of a writer that died here
        return open_file(self._folder, name, self._place.uid)

    def _prune(self) -> None:
        """The next record says that the oldest files go; then they do."""
        known = list_segments(self._folder, self._name)
        old = known[: -self._place.sizes.keep]
        if old:
            self._unwanted = tuple(each.name for each in old)
            self._owed = (*self._owed, JournalPruned(count=known[len(old)].first - 1))

    def _remove_unwanted(self) -> None:
        unwanted, self._unwanted = self._unwanted, ()
        for name in unwanted:
            _remove(self._folder, name)  # or it stays a part of the chain, and goes the next time

    def _chain(self, events: Sequence[Event]) -> tuple[bytes, Head]:
        data, head = b"", self._head
        for event in events:
            line = self._line(event, head)
            if len(line) >= LINE_LIMIT:
                raise JournalUnavailable("the event is too long for a journal line")
            data += line + b"\n"
            end = head.offset + len(line) + 1
            head = Head(head.seq + 1, line_hash(line), end, head.first)
        return data, head

    def _line(self, event: Event, head: Head) -> bytes:
        """The chain is over these bytes: separators and the order of keys are a format on disk."""
        record = {
            "v": VERSION,
            "ts": _timestamp(self._now()),
            "seq": head.seq + 1,
            "host": self._host,
            "event": event.event,
            **event.fields(),
            "prev": head.hash,
        }
        return _JSON.encode(record).encode("ascii")

    def _check_place(self) -> None:
        """Still the file of that name, and nobody else has changed its length."""
        ours = os.fstat(self._fd)
        named = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        if not os.path.samestat(ours, named):
            raise JournalUnavailable("the journal was moved or replaced")
        if ours.st_size != self._head.offset and not self._excess:
            raise JournalUnavailable("the journal was changed by somebody else")

    def _drop_excess(self) -> None:
        if self._excess:
            os.ftruncate(self._fd, self._head.offset)
            self._excess = False
            self._reserve.lost()
            self._reserve.hold(self._head.offset)

    def _take_back(self) -> None:
        """Leave no half line; where even that fails, the next record begins with it."""
        try:
            self._drop_excess()
        except OSError:
            pass


def _repair(torn: bytes) -> JournalRepaired:
    return JournalRepaired(reason=f"cut {len(torn)} bytes, sha256 {line_hash(torn)}")


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass


def _rename(folder: int, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def _timestamp(seconds: float) -> str:
    """RFC 3339, UTC, milliseconds."""
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return f"{_whole_second(whole)}.{thousandths:03d}Z"


@lru_cache(maxsize=2)
def _whole_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
