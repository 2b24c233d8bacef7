"""An append-only file of events: one JSON line each, chained by hash, on disk before we go on."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from audit.events import Event, JournalRepaired

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
    """The last line: its number, its hash, and where the next one begins."""

    seq: int
    hash: str
    offset: int


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
) -> Journal:
    """The journal at `path`, made if missing and owned by `uid` (default: us), ready to go on.

    A last line without its newline was never acknowledged; it is cut off, and the next record
    says so.
    """
    where = Path(path)
    try:
        folder = os.open(where.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise _unavailable(problem) from problem
    try:
        fd = _open_file(folder, where.name, os.geteuid() if uid is None else uid)
    except JournalUnavailable:
        os.close(folder)
        raise
    try:
        head, torn = _resume(fd)
    except JournalUnavailable:
        os.close(fd)
        os.close(folder)
        raise
    return Journal(folder, where.name, fd, head, torn, host, now, sync)


class Journal:
    """The one writer of a journal file; made by `open_journal`."""

    def __init__(
        self,
        folder: int,
        name: str,
        fd: int,
        head: _Head,
        torn: bytes,
        host: str,
        now: Callable[[], float],
        sync: Callable[[int], None],
    ) -> None:
        self._folder, self._name, self._fd = folder, name, fd
        self._head = head
        self._excess = bool(torn)  # the file is longer than the chain
        self._owed: tuple[Event, ...] = (_repair(torn),) if torn else ()
        self._host, self._now, self._sync = host, now, sync

    def record(self, event: Event, durable: bool = True) -> int:
        """Append an event and return its number; when this returns it is on disk if `durable`.

        On JournalUnavailable nothing was recorded; the next call tries afresh.
        """
        data, head = self._chain((*self._owed, event))
        try:
            self._check_place()
            self._drop_excess()
            self._excess = True
            _write_all(self._fd, data)
            if durable:
                self._sync(self._fd)
        except OSError as problem:
            self._take_back()
            raise _unavailable(problem) from problem
        self._head, self._excess, self._owed = head, False, ()
        return head.seq

    def head(self) -> tuple[int, str]:
        """Number and hash of the last line; (0, zeros) before the first."""
        return self._head.seq, self._head.hash

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._folder)

    def _chain(self, events: Sequence[Event]) -> tuple[bytes, _Head]:
        data, head = b"", self._head
        for event in events:
            line = self._line(event, head)
            if len(line) >= LINE_LIMIT:
                raise JournalUnavailable("the event is too long for a journal line")
            data += line + b"\n"
            head = _Head(head.seq + 1, line_hash(line), head.offset + len(line) + 1)
        return data, head

    def _line(self, event: Event, head: _Head) -> bytes:
        members = {
            "v": VERSION,
            "ts": _timestamp(self._now()),
            "seq": head.seq + 1,
            "host": self._host,
            "event": event.event,
            **event.fields(),
            "prev": head.hash,
        }
        return json.dumps(members, separators=(",", ":")).encode("ascii")

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


def _resume(fd: int) -> tuple[_Head, bytes]:
    """Where the chain ends, and the unfinished bytes behind it."""
    size = os.fstat(fd).st_size
    start = max(0, size - 2 * LINE_LIMIT)
    tail = os.pread(fd, size - start, start)
    end = tail.rfind(b"\n") + 1
    if end == 0:
        if start:
            raise JournalUnavailable("the journal ends in something that is not a line")
        return _Head(0, FIRST_PREV, 0), tail
    last = tail[: end - 1].rpartition(b"\n")[2]
    return _Head(_seq_of(last), line_hash(last), start + end), tail[end:]


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


def _timestamp(seconds: float) -> str:
    """RFC 3339, UTC, milliseconds."""
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{thousandths:03d}Z"


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _unavailable(problem: OSError) -> JournalUnavailable:
    return JournalUnavailable(f"the journal cannot be written: {problem.strerror or 'I/O error'}")
