"""The system calls Python 3.11 has no name for. Each raises OSError with the call's name."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
from collections.abc import Iterable

from gitmoat.confine.syscalls import NUMBERS

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_CLONE_INTO_CGROUP = 0x200000000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_SECUREBITS = 28
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_TIOCSCTTY = 0x540E
_LAST_SIGNAL = 64
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT = 4 * 1024 * 1024
_SIGACTION_SIZE = 32  # the kernel's: handler, flags, restorer, mask

# NOROOT, NO_SETUID_FIXUP and KEEP_CAPS, locked: a later exec as uid 0 gains nothing.
_SECUREBITS_ALL_OFF = 0x2F

_libc = ctypes.CDLL(None, use_errno=True)
_locked = ctypes.PyDLL(None, use_errno=True)  # Python's lock is held, as a fork must find it


def _check(result: int, call: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def _prctl(option: int, *arguments: int) -> None:
    words = [ctypes.c_ulong(word) for word in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(option, *words), f"prctl({option})")


def keep_large_blocks() -> None:
    """Let the allocator keep and reuse what relaying takes.

    By default it maps blocks from 128 KiB on anew each time: a page fault for every 4 KiB moved.
    """
    if not _libc.mallopt(_M_MMAP_THRESHOLD, _KEPT) or not _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT):
        raise OSError("mallopt refused")


def setns(descriptor: int, kinds: int) -> None:
    _check(_libc.setns(descriptor, kinds), "setns")


def unshare(kinds: int) -> None:
    _check(_libc.unshare(kinds), "unshare")


def unmount(target: str, flags: int) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), "umount2")


def fork_into(cgroup: int) -> int:
    """fork, and the child begins in a v2 cgroup, named by a descriptor of its directory.

    For children that exec or end soon: of what libc does around a fork nothing is done.
    """
    # struct clone_args: flags, at 32 the signal that tells of the end, at 80 the cgroup
    arguments = struct.pack("=Q24xQ40xQ", _CLONE_INTO_CGROUP, signal.SIGCHLD, cgroup)
    call = ctypes.c_long(NUMBERS[os.uname().machine]["clone3"])
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _locked.syscall(call, arguments, ctypes.c_long(len(arguments)))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return _check(pid, "clone3")


def offer_as_victim(score: int) -> None:
    """Where memory is short the kernel ends processes with a higher score first (0 is usual).

    To be called with CAP_SYS_RESOURCE: what such a process sets is the least that it can have
    later without one. A score that is higher already stays.
    """
    # Bytes: a codec may no longer be importable where this is called.
    with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
        if int(file.read()) < score:
            file.write(b"%d" % score)


def close_range(first: int, last: int = 0xFFFFFFFF) -> None:
    _check(_libc.close_range(ctypes.c_uint(first), ctypes.c_uint(last), 0), "close_range")


def close_all_but(kept: Iterable[int]) -> None:
    """Close every descriptor that is not listed, whatever its number."""
    start = 0
    for descriptor in sorted(set(kept)):
        if start < descriptor:
            close_range(start, descriptor - 1)
        start = descriptor + 1
    close_range(start)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def not_dumpable() -> None:
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Make this process the one that inherits descendants whose parent died."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int) -> None:
    """The signal that this process gets when the thread that forked it ends; 0 is none.

    A change of uid or gid takes it back; an execve of an ordinary program does not
    (PR_SET_PDEATHSIG(2const)).
    """
    _prctl(_PR_SET_PDEATHSIG, number)


def lock_securebits() -> None:
    _prctl(_PR_SET_SECUREBITS, _SECUREBITS_ALL_OFF)


def last_capability() -> int:
    # Bytes: a codec may no longer be importable where this is called.
    with open("/proc/sys/kernel/cap_last_cap", "rb") as number:
        return int(number.read())


def drop_bounding_set(last: int) -> None:
    for capability in range(last + 1):
        _prctl(_PR_CAPBSET_DROP, capability)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def drop_capabilities() -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def install_seccomp(program: bytes) -> None:
    """Load a BPF program for this thread and everything it starts."""
    instructions = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    holder = ctypes.create_string_buffer(fprog, len(fprog))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(holder))


def reset_signals() -> None:
    """Every signal's default action: what is ignored stays ignored over exec.

    By number, and past libc, which hides the two real-time signals it uses itself.
    """
    call = NUMBERS[os.uname().machine]["rt_sigaction"]
    default = bytes(_SIGACTION_SIZE)
    for number in range(1, _LAST_SIGNAL + 1):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            system_call("rt_sigaction", call, number, default, 0, _LAST_SIGNAL // 8)


def take_terminal(descriptor: int) -> None:
    """Make a terminal the controlling one of this (new) session."""
    fcntl.ioctl(descriptor, _TIOCSCTTY, 0)


def system_call(name: str, number: int, *arguments: int | bytes) -> int:
    """A call that libc has no function for."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *words), name)
