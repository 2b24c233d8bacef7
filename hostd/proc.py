"""Reads files of /proc (proc(5))."""

from __future__ import annotations

import os
from pathlib import Path

from gitmoat.boot import boot_seconds

Pid = int | str  # or "self"


def status(pid: Pid) -> dict[str, str]:
    """The fields of /proc/PID/status by their names."""
    with open(f"/proc/{pid}/status", "rb") as file:
        lines = file.read().decode("latin-1").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def text_of(pid: Pid, name: str) -> str:
    """One of its files; empty when the process has ended."""
    try:
        return Path("/proc", str(pid), name).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def mountinfo(pid: Pid = "self") -> str:
    return text_of(pid, "mountinfo")


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
