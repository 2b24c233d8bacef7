"""Attempts on files: to write where nothing may be written, to find what must not be there."""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from hostd.verify.attempts.refused import Refused

_SECONDS = 8.0
_LONG = 20.0
_FILES = 20_000
_FILE_SIZE = 4 << 20
_SKIPPED = {"/proc", "/sys", "/usr", "/lib", "/lib64", "/bin", "/sbin"}
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
# Prefixes of tokens that issuers document for secret scanners, and PEM keys (RFC 7468).
_TOKEN = re.compile(
    rb"gh[opsur]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{30}|glpat-[A-Za-z0-9_-]{20}"
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----|AKIA[0-9A-Z]{16}"
)


def _create(directory: str) -> str:
    path = f"{directory}/gitmoat-probe-{os.getpid()}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    os.unlink(path)
    return "created"


def _open(path: str, mode: str) -> str:
    flags = {"read": os.O_RDONLY, "write": os.O_WRONLY}[mode]
    os.close(os.open(path, flags | os.O_CLOEXEC))
    return "opened"


def _setuid_file() -> str:
    """Makes a file of its own setuid; its mode afterwards decides, not the answer of fchmod."""
    path = f"/tmp/gitmoat-probe-{os.getpid()}"  # noqa: S108 -- its name is new, or it fails
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o700)
    try:
        os.fchmod(descriptor, 0o4700)
        made = os.fstat(descriptor).st_mode & stat.S_ISUID
    finally:
        os.close(descriptor)
        os.unlink(path)
    if not made:
        raise Refused("the mode does not stay")
    return "setuid"


def _walk(top: str, deadline: float, unlisted: list[str]) -> Iterator[os.DirEntry[str]]:
    """Every entry below, without following links, outside of file systems of the kernel.

    Directories that can be searched but not listed (mode 0711) are added to `unlisted`.
    """
    waiting = [top]
    while waiting and time.monotonic() < deadline:
        directory = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            if os.path.isdir(directory) and os.access(directory, os.X_OK):
                unlisted.append(directory)
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting += [] if entry.path in _SKIPPED else [entry.path]
            else:
                yield entry


def _strange_socket(entry: os.DirEntry[str], own: int) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid != own


def _sockets(expected: str, own: int) -> str:
    """Looks for a socket of another uid in our file system."""
    for entry in _walk("/", time.monotonic() + _SECONDS, []):
        if _strange_socket(entry, own) and entry.path != expected:
            return entry.path
    raise Refused(f"only {expected}")


def _sockets_below(places: list[str], own: int) -> str:
    """Looks for one below what is mounted; a tree that cannot be read to its end counts as one."""
    deadline = time.monotonic() + _LONG
    unlisted: list[str] = []
    for place in places:
        for entry in _walk(place, deadline, unlisted):
            if _strange_socket(entry, own):
                return entry.path
        if unlisted:
            return f"{unlisted[0]} can be searched and not looked through"
        if time.monotonic() >= deadline:
            return f"{place} has more in it than can be looked through in {_LONG:.0f} s"
    raise Refused("none")


def _abstract(own: int) -> str:
    """Looks for an abstract socket (unix(7)) of another uid, which SO_PEERCRED says."""
    with open("/proc/net/unix", "rb") as file:
        words = [line.split() for line in file.read().splitlines()[1:]]
    names = [each[7] for each in words if len(each) > 7 and each[7].startswith(b"@")]
    for name in names:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(b"\0" + name[1:])
            except OSError:
                continue
            raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("=iII", raw)[1] != own:
            return name.decode("latin-1")
    raise Refused("none")


def _content(path: str) -> bytes:
    try:
        with open(os.open(path, _READ), "rb") as file:
            return file.read(_FILE_SIZE) or b""
    except OSError:
        return b""


def _of_processes() -> Iterator[tuple[str, bytes]]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline", "mountinfo"):
            path = f"/proc/{pid}/{name}"
            yield path, _content(path)


def _of_files() -> Iterator[tuple[str, bytes]]:
    deadline = time.monotonic() + _SECONDS
    for number, entry in enumerate(_walk("/", deadline, [])):
        if number >= _FILES:
            return
        if entry.is_file(follow_symlinks=False):
            yield entry.path, _content(entry.path)


def _marker(marker: str) -> str:
    """Searches all that can be read for a marker that only files of the host have; it must also
    find a canary of its own, or the search is broken."""
    wanted, canary = marker.encode(), f"canary-{os.urandom(12).hex()}".encode()
    path = f"/tmp/gitmoat-probe-{os.getpid()}"  # noqa: S108 -- its name is new, or it fails
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(canary)
    seen, works = 0, False
    try:
        for where, data in chain(_of_processes(), _of_files()):
            seen += 1
            works = works or canary in data
            if wanted in data:
                return f"found in {where}"
    finally:
        os.unlink(path)
    if not works:
        return "the search does not even find its own canary"
    raise Refused(f"in none of {seen} files")


def _tokens() -> str:
    """Looks for a credential in environments and command lines; returns its place, not itself."""
    for where, data in _of_processes():
        found = _TOKEN.search(data)
        if found is not None:
            return f"{found[0][:4].decode()}... in {where}"
    raise Refused("none")


ATTEMPTS: Mapping[str, Callable[..., str]] = {
    "create": _create,
    "open": _open,
    "setuid-file": _setuid_file,
    "sockets": _sockets,
    "sockets-below": _sockets_below,
    "abstract": _abstract,
    "marker": _marker,
    "tokens": _tokens,
}
