"""Mounting by descriptor: what was opened and checked is mounted, whatever its path means by now.

A mount is cloned from an open directory, restricted while nobody can see it, and only then put
somewhere. With a user namespace it shows one owner's files as another's (an idmapped mount): no
file is chowned for that, and new files land as the owner's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import struct
from typing import NoReturn

from gitmoat.confine import linux

# The same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_RDONLY, _NOSUID, _NODEV, _IDMAP = 0x1, 0x2, 0x4, 0x100000
_MS_PRIVATE = 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def clone_mount(directory: int) -> int:
    """The directory as a mount of its own, attached nowhere; mounts below it are not in it."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
    return linux.system_call("open_tree", _OPEN_TREE, directory, b"\0", flags)


def restrict(mount: int, read_only: bool, user_namespace: int | None) -> None:
    """No setuid, no devices, no propagation; OSError where the file system has no idmapping."""
    wanted = _NOSUID | _NODEV
    wanted |= _RDONLY if read_only else 0
    wanted |= _IDMAP if user_namespace is not None else 0
    attributes = struct.pack("=QQQQ", wanted, 0, _MS_PRIVATE, user_namespace or 0)
    linux.system_call(
        "mount_setattr", _MOUNT_SETATTR, mount, b"\0", _AT_EMPTY_PATH, attributes, len(attributes)
    )


def attach(mount: int, target: str) -> None:
    """Neither the mount's nor the target's last part is followed if it is a symlink."""
    path = os.fsencode(target) + b"\0"
    linux.system_call(
        "move_mount", _MOVE_MOUNT, mount, b"\0", _AT_FDCWD, path, _MOVE_MOUNT_F_EMPTY_PATH
    )


def detach(target: str) -> None:
    """Unmount, also when there is nothing mounted; who copied the mount keeps the copy."""
    try:
        linux.unmount(target, _MNT_DETACH | _UMOUNT_NOFOLLOW)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOENT):
            raise


def user_namespace(uids: tuple[int, int], gids: tuple[int, int]) -> int:
    """A table of ids for `restrict`: (id on disk, id shown). No process ever lives in it.

    The maps must be written from outside, so a child makes the namespace and waits to be killed.
    """
    ready, tell = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _wait_in_new_namespace(tell)
    os.close(tell)
    try:
        if os.read(ready, 1) != b"r":
            raise OSError(errno.ENOSPC, "no user namespace could be made")
        _write(f"/proc/{child}/uid_map", uids)
        _write(f"/proc/{child}/gid_map", gids)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _wait_in_new_namespace(tell: int) -> NoReturn:
    with contextlib.suppress(OSError):
        linux.unshare(linux.CLONE_NEWUSER)
        os.write(tell, b"r")
        signal.pause()
    os._exit(1)


def _write(path: str, pair: tuple[int, int]) -> None:
    with open(path, "wb", buffering=0) as table:
        table.write(b"%d %d 1" % pair)
