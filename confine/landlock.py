"""Landlock with no rule: the process may open no file, bind or dial no TCP port, signal nobody."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET = 444
_RESTRICT_SELF = 446
_ASK_VERSION = 1

# (ABI that brought it, file-system rights, network rights, scopes), linux/landlock.h
_FS_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
_NET_RIGHTS = {4: 0x3}
_SCOPES = {6: 0x3}


def _newest(table: dict[int, int], abi: int) -> int:
    return max((rights for version, rights in table.items() if version <= abi), default=0)


def abi_version() -> int:
    """0 where the kernel has no Landlock or has it switched off."""
    version: int = _libc.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    if version >= 0:
        return version
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EOPNOTSUPP):
        return 0
    raise OSError(number, "landlock_create_ruleset")


def attributes(abi: int) -> bytes:
    """struct landlock_ruleset_attr as long as this ABI knows it."""
    words = [_newest(_FS_RIGHTS, abi)]
    if abi >= 4:
        words.append(_newest(_NET_RIGHTS, abi))
    if abi >= 6:
        words.append(_newest(_SCOPES, abi))
    return struct.pack(f"={len(words)}Q", *words)


def deny_everything(abi: int) -> None:
    """Needs no-new-privs. With ABI 0 it does nothing: seccomp and chroot still hold."""
    if abi == 0:
        return
    attr = attributes(abi)
    ruleset = _libc.syscall(_CREATE_RULESET, attr, len(attr), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        if _libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
