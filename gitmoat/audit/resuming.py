"""Opening the files of a journal, and finding where its chain ends."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat

from attrs import frozen

from gitmoat.audit.segments import list_segments

LINE_LIMIT = 2 * 1024 * 1024
FIRST_PREV = "0" * 64


class JournalUnavailable(Exception):
    """An event could not be recorded, so what it describes must not happen."""

    code = "B103"
    retry = 0  # seconds, where it is known when it can be

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@frozen
class Head:
    """The last line: its number, its hash, and where the next one begins.

    `first` is the number of the first line of this file.
    """

    seq: int
    hash: str
    offset: int
    first: int


def line_hash(line: bytes) -> str:
    """What the next line's `prev` must be; `line` without its newline."""
    return hashlib.sha256(line).hexdigest()


def unavailable(problem: BaseException | None) -> JournalUnavailable:
    why = problem.strerror if isinstance(problem, OSError) else None
    return JournalUnavailable(f"the journal cannot be written: {why or 'I/O error'}")


def open_file(folder: int, name: str, uid: int) -> int:
    try:
        fd = _open_or_create(folder, name, uid)
    except OSError as problem:
        raise unavailable(problem) from problem
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


def end_before(folder: int, name: str) -> Head:
    """Where the files before this one end."""
    known = list_segments(folder, name)
    if not known:
        return Head(0, FIRST_PREV, 0, 1)
    try:
        fd = os.open(known[-1].name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as problem:
        raise unavailable(problem) from problem
    try:
        last, torn = resume(fd, Head(0, FIRST_PREV, 0, 1))
    finally:
        os.close(fd)
    if torn or not last.seq:
        raise JournalUnavailable("the file before the last one is damaged")
    return Head(last.seq, last.hash, 0, last.seq + 1)


def resume(fd: int, before: Head) -> tuple[Head, bytes]:
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
    return Head(_seq_of(last), line_hash(last), start + end, before.seq + 1), tail[end:]


def _seq_of(line: bytes) -> int:
    try:
        seq = json.loads(line)["seq"]
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise JournalUnavailable("the last line of the journal is damaged") from problem
    if type(seq) is not int:
        raise JournalUnavailable("the last line of the journal is damaged")
    return seq
