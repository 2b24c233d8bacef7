"""Attempts on privileges and other processes; and which privileges and descriptors there are."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping

from gitmoat.confine import linux
from gitmoat.confine.syscalls import NUMBERS
from hostd.process.proc import CAPABILITY_SETS, status
from hostd.verify.attempts.refused import Refused

_PTRACE_SEIZE = 0x4206
_NOT_LET_THROUGH = (errno.ENOSYS, errno.EPERM)


def privileges(found: Mapping[str, str], uid: int) -> list[str]:
    """The privileges of a process by its /proc/PID/status; a confined one has none."""
    wrong = [f"{name} {found[name]}" for name in CAPABILITY_SETS if int(found[name], 16)]
    wrong += [f"uid {found['Uid']}"] if set(found["Uid"].split()) != {str(uid)} else []
    # Docker gives the first process of a container its own gid as a supplementary group.
    wrong += [f"groups {found['Groups']}"] if set(found["Groups"].split()) - {str(uid)} else []
    wrong += ["new privileges"] if found["NoNewPrivs"] != "1" else []
    wrong += ["no system-call filter"] if found["Seccomp"] != "2" else []
    return wrong


def _privileged(uid: int) -> str:
    wrong = privileges(status("self"), uid)
    if not wrong:
        raise Refused("none")
    return ", ".join(wrong)


def _call(name: str, *arguments: int) -> str:
    """The filter answers ENOSYS or EPERM; any other error means that the call was let through."""
    try:
        linux.system_call(name, NUMBERS[os.uname().machine][name], *arguments)
    except OSError as problem:
        if problem.errno in _NOT_LET_THROUGH:
            raise
        return errno.errorcode.get(problem.errno or 0, "an error")
    return "called"


def _own_memory() -> str:
    """process_vm_readv(2) of nothing from itself, which only a filter refuses."""
    return _call("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)


def _trace(pid: int) -> str:
    linux.system_call("ptrace", NUMBERS[os.uname().machine]["ptrace"], _PTRACE_SEIZE, pid, 0, 0)
    return "traced"


def _signal(pid: int) -> str:
    os.kill(pid, 0)
    return "could be signalled"


def _become(uid: int) -> str:
    os.setuid(uid)
    return f"uid {uid}"


def _unshare(kinds: int) -> str:
    linux.unshare(kinds)
    return "a new namespace"


def _descriptors(most: int) -> str:
    """Descriptors beyond standard input, output and error; the last is that of the listing."""
    held = sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]
    if held == list(range(most)):
        raise Refused(f"{most}, its own")
    extra = [number for number in held if number >= most]
    return "holds " + ", ".join(f"{number} {_link(number)}" for number in extra)


def _link(number: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return "?"


def _foreign_processes(*ours: int) -> str:
    """Processes of other uids than root, which the pause has, and our own."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            uid = os.stat(f"/proc/{name}").st_uid
        except OSError:
            continue
        if uid not in (0, *ours):
            return f"process {name} of uid {uid}"
    raise Refused("none to be seen")


ATTEMPTS: Mapping[str, Callable[..., str]] = {
    "privileged": _privileged,
    "call": _call,
    "own-memory": _own_memory,
    "trace": _trace,
    "signal": _signal,
    "become": _become,
    "unshare": _unshare,
    "descriptors": _descriptors,
    "foreign-processes": _foreign_processes,
}
