"""What /proc says of a peer's cgroup, for kernels that do not say it on the socket.

Only v2 counts, as everywhere: the number is the inode of the directory that `0::` names.
"""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_MOUNTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))


def cgroup_of(pid: int) -> int:
    """OSError when there is no such process or no such cgroup. The caller must know by other
    means that the pid meant the same process all the time."""
    text = (_PROC / str(pid) / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    for line in text.splitlines():
        if line.startswith("0::/"):
            return (_mount() / line.removeprefix("0::/")).stat().st_ino
    raise FileNotFoundError("the process is in no v2 cgroup")


def cgroup_of_same(pid: int) -> int:
    """As `cgroup_of`, with the start time as the other means."""
    before = _start_time(pid)
    found = cgroup_of(pid)
    if _start_time(pid) != before:
        raise ProcessLookupError("the pid means another process now")
    return found


def _start_time(pid: int) -> bytes:
    """In clock ticks since boot: with the pid, the identity of a process."""
    return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19]


def _mount() -> Path:
    for mount in _MOUNTS:
        if (mount / "cgroup.procs").exists():
            return mount
    raise FileNotFoundError("there is no v2 cgroup hierarchy")
