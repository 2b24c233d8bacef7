"""Programs that a measurement starts, and what the kernel says that they used."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import define, field

_START_SECONDS = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")
# clock_getcpuclockid(3): the number of a process's clock is made of its pid and this.
_CPU_CLOCK = 2


Environment = Mapping[str, str]
NONE: Environment = {}


class NotStarted(Exception):
    """A program did not come up; the text is its last words."""


@define(eq=False)
class Programs:
    """What was started, to be ended in reverse order; each has a log in `directory`."""

    directory: Path
    _started: list[subprocess.Popen[bytes]] = field(factory=list)

    def start(
        self, name: str, command: Sequence[str], port: int = 0, environment: Environment = NONE
    ) -> int:
        """Its pid, once it accepts on `port` of the loopback interface."""
        log = self.directory / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **environment},
                cwd=self.directory,
                start_new_session=True,
            )
        self._started.append(process)
        deadline = time.monotonic() + _START_SECONDS
        while port and not _accepts(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NotStarted(f"{name}: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        return process.pid

    def stop(self) -> None:
        """Each with what it started: fcgiwrap leaves its children behind."""
        for process in reversed(self._started):
            _signal(process, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
            _signal(process, signal.SIGKILL)
            process.wait()
        self._started.clear()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To its whole group, which it leads and which may outlive it."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += [int(word) for word in _read(task).split()]
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these and of their children that ended."""
    return sum(map(_own_seconds, pids)) + _ended_children(pids)


def _own_seconds(pid: int) -> float:
    """From the process's own clock, in nanoseconds: in /proc/PID/stat there are hundredths of a
    second, of which nginx needs one or two for all of a short row's requests."""
    try:
        return time.clock_gettime(~pid << 3 | _CPU_CLOCK)
    except OSError:
        return 0.0


def _ended_children(pids: Iterable[int]) -> float:
    stats = (_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in pids)
    return sum(sum(map(int, words[13:15])) for words in stats) / _TICKS


def memory(pid: int) -> dict[str, int]:
    """KiB by kind (Rss, Pss, Private_Dirty, ...), as the kernel counts them."""
    lines = _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def forget_peak(pids: Iterable[int]) -> None:
    """From now on the peak is counted anew."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def resident(pids: Iterable[int], key: str = "VmRSS") -> int:
    """KiB in all; VmHWM is the peak."""
    return sum(
        int(line.split()[1])
        for pid in pids
        for line in _read(Path(f"/proc/{pid}/status")).splitlines()
        if line.startswith(f"{key}:")
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
