"""An append-only file of events: one JSON line each, chained by hash, on disk before we go on."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

from attrs import frozen

from audit.events import Event, JournalPruned, JournalRepaired
from audit.reserve import SIZE as RESERVE
from audit.reserve import Reserve
from audit.segments import list_segments, segment_name

VERSION = 1
LINE_LIMIT = 2 * 1024 * 1024
FIRST_PREV = "0" * 64


class JournalUnavailable(Exception):
    """An event could not be recorded, so what it describes must not happen."""

    code = "B103"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@frozen
class _Head:
    """The last line: its number, its hash, and where the next one begins.

    `first` is the number of the first line of this file.
    """

    seq: int
    hash: str
    offset: int
    first: int


@frozen
class Sizes:
    """Bytes of one file before the next is begun, how many older ones stay, and the reserve."""

    segment: int = 64 << 20
    keep: int = 64
    reserve: int = RESERVE


def line_hash(line: bytes) -> str:
    """What the next line's `prev` must be; `line` without its newline."""
    return hashlib.sha256(line).hexdigest()


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
        raise _unavailable(problem) from problem
    opened = [folder]
    try:
        opened.append(fd := _open_file(folder, where.name, owner))
        head, torn = _resume(fd, _before(folder, where.name))
        opened.append(spare := _open_file(folder, f"{where.stem}.reserve", owner))
    except JournalUnavailable:
        for each in opened:
            os.close(each)
        raise
    place = _Place(folder, where.name, owner, sizes)
    return Journal(place, fd, Reserve(spare, sizes.reserve), head, torn, host, now, sync)


@frozen
class _Place:
    folder: int
    name: str
    uid: int
    sizes: Sizes


class Journal:
    """The one writer of a journal; made by `open_journal`."""

    def __init__(
        self,
        place: _Place,
        fd: int,
        reserve: Reserve,
        head: _Head,
        torn: bytes,
        host: str,
        now: Callable[[], float],
        sync: Callable[[int], None],
    ) -> None:
        self._place, self._folder, self._name, self._fd = place, place.folder, place.name, fd
        self._reserve = reserve
        self._head = head
        self._excess = bool(torn)  # the file is longer than the chain
        self._owed: tuple[Event, ...] = (_repair(torn),) if torn else ()
        self._unwanted: tuple[str, ...] = ()
        self._held: int | None = None  # being synced
        self._host, self._now, self._sync = json.dumps(host), now, sync
        self._working = reserve.hold()  # whether the last attempt to write went well

    def record(self, event: Event, durable: bool = True) -> int:
        """Append an event and return its number; when this returns it is on disk if `durable`.

        On JournalUnavailable nothing was recorded; the next call tries afresh.
        """
        worked, self._working = self._working, False
        if not event.reserved and not self._reserve.hold():
            raise JournalUnavailable("the disk is full but for what is kept for pushes and grants")
        data, head = self._chain((*self._owed, event))
        if self._head.offset and head.offset > self._place.sizes.segment:
            self._begin_file()
            data, head = self._chain((*self._owed, event))
        try:
            self._append(data, durable)
        except OSError as problem:
            if not self._make_room(event, problem):
                raise _unavailable(problem) from problem
            self._try_again(data, durable)
        # A line that nobody waits for says nothing of the disk: what failed there still does.
        self._head, self._owed, self._working = head, (), durable or worked
        if self._unwanted:
            self._remove_unwanted()
        return head.seq

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
        return _unavailable(problem)

    def _append(self, data: bytes, durable: bool) -> None:
        try:
            self._check_place()
            self._drop_excess()
            self._excess = True
            _write_all(self._fd, data)
            if durable:
                self._sync(self._fd)
        except OSError:
            self._take_back()
            raise
        self._excess = False

    def _make_room(self, event: Event, problem: OSError) -> bool:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        return full and event.reserved and self._reserve.give_up()

    def _try_again(self, data: bytes, durable: bool) -> None:
        try:
            self._append(data, durable)
        except OSError as problem:
            raise _unavailable(problem) from problem

    def works(self) -> bool:
        """Whether records can be written; after a failure it is found out anew, without one."""
        if not self._working:
            try:
                self._check_place()
                self._sync(self._fd)
                self._working = self._reserve.hold()
            except (OSError, JournalUnavailable):
                pass
        return self._working

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
        self._reserve.close()
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
        try:
            _rename(self._folder, self._name, closed)
        except OSError:
            os.close(fd)
            return
        try:
            _rename(self._folder, fresh, self._name)
            os.fsync(self._folder)
        except OSError:
            _rename(self._folder, closed, self._name)
            os.close(fd)
            return
        if self._fd != self._held:
            os.close(self._fd)
        self._fd, self._excess = fd, False
        self._head = _Head(self._head.seq, self._head.hash, 0, self._head.seq + 1)
        self._prune()

    def _make_file(self, name: str) -> int:
        try:
            os.unlink(name, dir_fd=self._folder)  # of a writer that died here
        except FileNotFoundError:
            pass
        return _open_file(self._folder, name, self._place.uid)

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
            try:
                os.unlink(name, dir_fd=self._folder)
            except OSError:
                pass  # it stays a part of the chain, and goes the next time

    def _chain(self, events: Sequence[Event]) -> tuple[bytes, _Head]:
        data, head = b"", self._head
        for event in events:
            line = self._line(event, head)
            if len(line) >= LINE_LIMIT:
                raise JournalUnavailable("the event is too long for a journal line")
            data += line + b"\n"
            end = head.offset + len(line) + 1
            head = _Head(head.seq + 1, line_hash(line), end, head.first)
        return data, head

    def _line(self, event: Event, head: _Head) -> bytes:
        begun = f'{{"v":{VERSION},"ts":"{_timestamp(self._now())}","seq":{head.seq + 1}'
        told = f',"host":{self._host}{event.members()},"prev":"{head.hash}"}}'
        return (begun + told).encode("ascii")

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

    def _take_back(self) -> None:
        """Leave no half line; where even that fails, the next record begins with it."""
        try:
            self._drop_excess()
        except OSError:
            pass


def _open_file(folder: int, name: str, uid: int) -> int:
    try:
        fd = _open_or_create(folder, name, uid)
    except OSError as problem:
        raise _unavailable(problem) from problem
    try:
        _check_file(os.fstat(fd), uid)
        _lock(fd)
    except JournalUnavailable:
        os.close(fd)
        raise
    return fd


def _open_or_create(folder: int, name: str, uid: int) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        fd = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        if uid != os.geteuid():
            os.fchown(fd, uid, -1)
        os.fsync(folder)
        return fd


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        raise JournalUnavailable("another process writes this journal") from problem


def _check_file(found: os.stat_result, uid: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise JournalUnavailable("the journal is not a regular file")
    if found.st_uid != uid:
        raise JournalUnavailable(f"the journal belongs to uid {found.st_uid}, not {uid}")
    if stat.S_IMODE(found.st_mode) & ~0o600:
        raise JournalUnavailable("the journal has a mode wider than 0600")
    if found.st_nlink != 1:
        raise JournalUnavailable("the journal has a second name")


def _before(folder: int, name: str) -> _Head:
    """Where the files before this one end."""
    known = list_segments(folder, name)
    if not known:
        return _Head(0, FIRST_PREV, 0, 1)
    try:
        fd = os.open(known[-1].name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as problem:
        raise _unavailable(problem) from problem
    try:
        last, torn = _resume(fd, _Head(0, FIRST_PREV, 0, 1))
    finally:
        os.close(fd)
    if torn or not last.seq:
        raise JournalUnavailable("the file before the last one is damaged")
    return _Head(last.seq, last.hash, 0, last.seq + 1)


def _resume(fd: int, before: _Head) -> tuple[_Head, bytes]:
    """Where the chain ends, and the unfinished bytes behind it."""
    size = os.fstat(fd).st_size
    start = max(0, size - 2 * LINE_LIMIT)
    tail = os.pread(fd, size - start, start)
    end = tail.rfind(b"\n") + 1
    if end == 0:
        if start:
            raise JournalUnavailable("the journal ends in something that is not a line")
        return before, tail
    last = tail[: end - 1].rpartition(b"\n")[2]
    return _Head(_seq_of(last), line_hash(last), start + end, before.seq + 1), tail[end:]


def _seq_of(line: bytes) -> int:
    try:
        seq = json.loads(line)["seq"]
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise JournalUnavailable("the last line of the journal is damaged") from problem
    if type(seq) is not int:
        raise JournalUnavailable("the last line of the journal is damaged")
    return seq


def _repair(torn: bytes) -> JournalRepaired:
    return JournalRepaired(reason=f"cut {len(torn)} bytes, sha256 {line_hash(torn)}")


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


def _unavailable(problem: BaseException | None) -> JournalUnavailable:
    why = problem.strerror if isinstance(problem, OSError) else None
    return JournalUnavailable(f"the journal cannot be written: {why or 'I/O error'}")
