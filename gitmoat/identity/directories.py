"""Directories of ours: opened name by name, never through a symlink, owner and mode checked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gitmoat.identity.control_errors import (
    ControlSocketDenied,
    ControlSocketError,
    ControlSocketUnsafe,
)

_OTHERS_WRITE = 0o022
_WORLD_WRITES = 0o002


def make_private_directory(
    path: str | Path, mode: int, uid: int, gid: int, *, root: str | Path = "/"
) -> None:
    """Make `path` with exactly this owner and mode; missing parents become ours, 0755.

    One that exists must be ours or `uid`'s and closed to others' writing, or nothing is changed.
    """
    where = os.fspath(path)
    *parents, last = plain_names(where, root)
    # Not as strict as for sockets: distributions give /var/log to a group of their own.
    parent = _walk(where, root, parents, {0, os.geteuid(), uid}, _WORLD_WRITES, make=True)
    try:
        folder = _make(parent, last, where, 0o700)
    finally:
        os.close(parent)
    try:
        _settle(folder, where, mode, uid, gid)
    finally:
        os.close(folder)


def open_private_directory(path: str, uid: int, root: str | Path = "/") -> int:
    """An O_PATH descriptor of a directory that only `uid` can write to, parents up to `root`
    checked; FileNotFoundError if it is not there."""
    *parents, last = plain_names(path, root)
    above = _walk(path, root, parents, {0, uid}, _OTHERS_WRITE)
    try:
        folder = _descend(above, last, path)
    finally:
        os.close(above)
    try:
        _check_owner(os.fstat(folder), path, {uid})
    except ControlSocketError:
        os.close(folder)
        raise
    return folder


def plain_names(where: str, root: str | Path) -> list[str]:
    """The names of `where` below `root`; odd spellings are refused, never resolved."""
    above = os.fspath(root).rstrip("/") + "/"
    if not where.startswith("/") or not where.startswith(above):
        raise ControlSocketUnsafe(f"{where} is not an absolute path below {above}")
    names = where[len(above) :].split("/")
    if any(name in ("", ".", "..") for name in names):
        raise ControlSocketUnsafe(f"{where} is not a plain path", "write it without . and ..")
    return names


def _walk(
    where: str,
    root: str | Path,
    names: list[str],
    owners: set[int],
    forbidden: int,
    make: bool = False,
) -> int:
    here = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            below = _make(here, name, where, 0o755) if make else _descend(here, name, where)
        finally:
            os.close(here)
        here = below
        try:
            _check_parent(os.fstat(here), name, where, owners, forbidden)
        except ControlSocketError:
            os.close(here)
            raise
    return here


def _make(parent: int, name: str, where: str, mode: int) -> int:
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        pass
    except PermissionError as problem:
        raise ControlSocketDenied(f"{where}: not permitted", "run as root") from problem
    return _descend(parent, name, where)


def _descend(parent: int, name: str, where: str) -> int:
    # From descriptor to descriptor: what was checked is what is used, whatever the path means by
    # then. O_PATH with O_NOFOLLOW opens a symlink itself (open(2)), which O_DIRECTORY refuses.
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=parent)
    except NotADirectoryError as problem:
        raise ControlSocketUnsafe(
            f"{where}: {name} is a symlink or not a directory", f"make {name} a real directory"
        ) from problem
    except PermissionError as problem:
        raise ControlSocketDenied(f"{where}: not permitted", "run as root") from problem


def _check_parent(
    found: os.stat_result, name: str, where: str, owners: set[int], forbidden: int
) -> None:
    if found.st_uid not in owners:
        raise ControlSocketUnsafe(
            f"{where}: {name} belongs to uid {found.st_uid}", f"give {name} to root"
        )
    # inode(7): in a sticky directory, as /tmp, others can neither rename nor remove what is ours.
    sticky = found.st_mode & stat.S_ISVTX
    if found.st_mode & forbidden and not sticky:
        raise ControlSocketUnsafe(f"{where}: others can write to {name}", f"chmod go-w {name}")


def _check_owner(found: os.stat_result, folder: str, owners: set[int]) -> None:
    if found.st_uid not in owners:
        raise ControlSocketUnsafe(
            f"{folder} belongs to uid {found.st_uid}", f"chown {max(owners)} {folder}"
        )
    if found.st_mode & _OTHERS_WRITE:
        raise ControlSocketUnsafe(f"others can write to {folder}", f"chmod go-w {folder}")


def _settle(folder: int, where: str, mode: int, uid: int, gid: int) -> None:
    _check_owner(os.fstat(folder), where, {os.geteuid(), uid})
    real = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(real)
        if (found.st_uid, found.st_gid) != (uid, gid):
            os.fchown(real, uid, gid)
        os.fchmod(real, mode)
    finally:
        os.close(real)
