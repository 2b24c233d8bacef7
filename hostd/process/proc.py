"""Reads files of /proc (proc(5))."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path, PurePosixPath

from attrs import frozen

from gitmoat.boot import boot_seconds

Pid = int | str  # or "self"
CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")  # in its status
_OCTAL = re.compile(r"\\([0-7]{3})")


def parse_status(text: str) -> dict[str, str]:
    """The fields of a /proc/PID/status by their names (proc_pid_status(5))."""
    lines = text.split("\n")  # and at nothing else: the kernel escapes only that in a name
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def status(pid: Pid) -> dict[str, str]:
    with open(f"/proc/{pid}/status", "rb") as file:
        return parse_status(file.read().decode("latin-1"))


def text_of(pid: Pid, name: str) -> str:
    """One of its files; empty when the process has ended."""
    try:
        return Path("/proc", str(pid), name).read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError as error:
        # mounts_open_common() in fs/proc_namespace.c: of a zombie, which has no mounts any more.
        if error.errno == errno.EINVAL:
            return ""
        raise


def mountinfo(pid: Pid = "self") -> str:
    return text_of(pid, "mountinfo")


@frozen
class Place:
    """A path in a file system: `device` is major:minor."""

    device: str
    path: PurePosixPath

    def holds(self, other: Place) -> bool:
        return self.device == other.device and other.path.is_relative_to(self.path)


@frozen
class MountLine:
    place: Place
    target: str
    kind: str
    read_only: bool
    options: tuple[str, ...] = ()  # of the file system, where cgroup v1 names its controllers


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def parse_mountinfo(text: str) -> list[MountLine]:
    """See proc_pid_mountinfo(5): space, tab, newline and backslash are octal escapes."""
    found = []
    for line in filter(None, text.split("\n")):  # the kernel escapes no other end of a line
        fields, _, rest = line.partition(" - ")
        _, _, device, root, target, options = fields.split(" ")[:6]
        place = Place(device, PurePosixPath(_unescaped(root)))
        kind, _, super_options = rest.split(" ", 2)
        read_only = "ro" in options.split(",")
        more = tuple(super_options.split(" ")[-1].split(","))
        found.append(MountLine(place, _unescaped(target), kind, read_only, more))
    return found


def _stat(pid: Pid) -> list[str]:
    """The fields behind the last bracket, from the state on: a name may have spaces and
    brackets."""
    return text_of(pid, "stat").rpartition(")")[2].split()


def state(pid: Pid) -> str:
    """Its state as one letter, empty when the process has ended."""
    return "".join(_stat(pid)[:1])


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: pid and start time identify it."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def wakeups(pid: int) -> int | None:
    """How often a process has gone to sleep, if it sleeps now; None if it runs or is stopped."""
    try:
        found = status(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(found["voluntary_ctxt_switches"]) if found["State"].startswith("S") else None


def network_of(pid: Pid) -> int:
    """The inode of its network namespace; 0 when it cannot be seen."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return 0


def boot_ticks() -> int:
    """The time since boot in the ticks of `start_time`."""
    return int(boot_seconds() * os.sysconf("SC_CLK_TCK"))
