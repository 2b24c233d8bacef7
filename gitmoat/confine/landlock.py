"""Landlock (landlock(7)) in two forms: no access at all, and changes below given directories."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

# (ABI that brought it, file-system rights, network rights, scopes), linux/landlock.h
_FS_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
_NET_RIGHTS = {4: 0x3}
_SCOPES = {6: 0x3}
# READ_FILE and READ_DIR; everything else changes something or executes.
_READING = 0x4 | 0x8
_EXECUTE = 0x1
_BIND_TCP = 0x1


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


def attributes(abi: int, files: int = -1, ports: int = -1) -> bytes:
    """struct landlock_ruleset_attr as long as this ABI knows it; the masks choose rights."""
    words = [_newest(_FS_RIGHTS, abi) & files]
    if abi >= 4:
        words.append(_newest(_NET_RIGHTS, abi) & ports)
    if abi >= 6:
        words.append(_newest(_SCOPES, abi))
    return struct.pack(f"={len(words)}Q", *words)


def deny_everything(abi: int) -> None:
    """Needs no-new-privs. With ABI 0 it does nothing: seccomp and chroot still hold."""
    if abi > 0:
        _restrict(attributes(abi), ())


def deny_writes_but(abi: int, places: Sequence[int]) -> None:
    """Reading stays as the uid has it; changing files works only below these directories.

    Executing and listening on a new TCP port end too. `places` are open O_PATH descriptors.
    """
    if abi > 0:
        changes = _newest(_FS_RIGHTS, abi) & ~_READING & ~_EXECUTE
        rules = tuple((changes, place) for place in places)
        _restrict(attributes(abi, ~_READING, _BIND_TCP), rules)


def _restrict(attr: bytes, rules: Sequence[tuple[int, int]]) -> None:
    ruleset = _libc.syscall(_CREATE_RULESET, attr, len(attr), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        for rights, place in rules:
            beneath = struct.pack("=Qi", rights, place)
            if _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, beneath, 0) != 0:
                raise OSError(ctypes.get_errno(), "landlock_add_rule")
        if _libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
