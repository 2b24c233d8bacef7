"""Watches, from the host, every process of one uid while an operation runs."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

from attrs import define, field


@define(eq=False)
class Seen:
    """What was seen of one process; the last look counts, sets grow."""

    pid: int
    words: list[str] = field(factory=list)
    environment: set[str] = field(factory=set)
    descriptors: set[str] = field(factory=set)
    everything: set[str] = field(factory=set)
    status: dict[str, str] = field(factory=dict)
    memory: int = 0


@define(eq=False)
class Watch:
    """`with Watch(uid) as watch: …`; then `watch.seen` has the processes by pid."""

    uid: int
    pause: float = 0.01
    seen: dict[int, Seen] = field(factory=dict)
    _stop: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def memory(self) -> int:
        """The most that one of them had at a time."""
        return max((each.memory for each in self.seen.values()), default=0)

    def text(self) -> str:
        found = self.seen.values()
        return "\n".join(sorted({word for each in found for word in each.everything}))

    def _run(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(self.pause)

    def look(self) -> None:
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                self._look(int(name))
            except (OSError, ValueError, KeyError):
                continue  # it ended while we looked

    def _look(self, pid: int) -> None:
        process = Path("/proc", str(pid))
        if process.stat().st_uid != self.uid and pid not in self.seen:
            return
        lines = (process / "status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if status["Uid"].split()[0] != str(self.uid) or status["State"].startswith("Z"):
            return
        words, environment = _texts(process, "cmdline"), _texts(process, "environ")
        if "hostd.launcher" in words or words != _texts(process, "cmdline") or not words[0]:
            return  # it is not yet what it was started for
        seen = self.seen.setdefault(pid, Seen(pid))
        seen.status, seen.words, seen.environment = status, words, set(environment)
        seen.everything |= {*words, *environment}
        seen.memory = max(seen.memory, int(status.get("VmHWM", "0 kB").split()[0]) << 10)
        for descriptor in (process / "fd").iterdir():
            seen.descriptors.add(f"{descriptor.name} {descriptor.readlink()}")


def _texts(process: Path, name: str) -> list[str]:
    return (process / name).read_bytes().decode().split("\0")


def processes_of(uid: int) -> list[Seen]:
    """Those that run now."""
    watch = Watch(uid)
    watch.look()
    return list(watch.seen.values())


def peak_memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10
