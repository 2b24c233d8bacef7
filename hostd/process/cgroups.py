"""Cgroups: three for each sandbox, which say what belongs to it and limit it (cgroups(7)).

All sandboxes and gates together have limits too, which leave memory and pids for hostd, the broker
and the sidecars; sidecars are in a group of their own beside, outside of those limits.

A group's identity is the inode of its v2 directory. A limit is set where its controller is: in the
same directory on a v2 host, in one directory per controller on a v1 or hybrid host.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from attrs import frozen

from hostd.process.proc import mountinfo, parse_mountinfo

CONTROLLERS = ("memory", "pids", "cpu")
_CPU_PERIOD = 100_000
_ROOT = PurePosixPath("/")
_MIB = 1 << 20
# What the freezer of v1 and v2 says of a group that is frozen or being frozen.
_FROZEN = {"freezer.state": ("FROZEN", "FREEZING"), "cgroup.freeze": ("1",)}
_LEAST_RESERVE, _MOST_RESERVE = 256 * _MIB, 4096 * _MIB


@frozen
class ResourceLimits:
    """None is no limit."""

    memory: int | None = None
    pids: int | None = None
    cpus: float | None = None


@frozen
class Hierarchies:
    """Where cgroups are mounted: v2, if at all, and the directory of each limiting controller."""

    unified: Path | None
    limiting: dict[str, Path]

    def all(self) -> list[Path]:
        found = [self.unified] if self.unified is not None else []
        return list(dict.fromkeys([*found, *self.limiting.values()]))

    def is_unified(self, controller: str) -> bool:
        return self.limiting.get(controller) == self.unified


def parse_mounts(mounted: str, v2_controllers: frozenset[str]) -> Hierarchies:
    """A controller that is mounted in v1 is not available in v2 (cgroups(7))."""
    unified: Path | None = None
    limiting: dict[str, Path] = {}
    for mount in parse_mountinfo(mounted):
        if mount.kind == "cgroup2" and unified is None:
            unified = Path(mount.target)
        elif mount.kind == "cgroup":
            named = (name for name in CONTROLLERS if name in mount.options)
            limiting.update(dict.fromkeys(named, Path(mount.target)))
    if unified is not None:
        for name in v2_controllers:
            limiting.setdefault(name, unified)
    return Hierarchies(unified, limiting)


def find_hierarchies() -> Hierarchies:
    mounted = mountinfo()
    unified = parse_mounts(mounted, frozenset()).unified
    controllers: set[str] = set()
    if unified is not None:
        words = (unified / "cgroup.controllers").read_text(encoding="ascii").split()
        controllers = set(words) & set(CONTROLLERS)
    return parse_mounts(mounted, frozenset(controllers))


def directories_of(cgroups: str, mounts: str) -> tuple[str, ...]:
    """The directories of a process's cgroups, from its /proc/PID/cgroup: a process that joins all
    of them has the same limits."""
    mounted: dict[str, str] = {}
    for mount in parse_mountinfo(mounts):
        if mount.kind in ("cgroup", "cgroup2") and mount.place.path == _ROOT:
            names = ("",) if mount.kind == "cgroup2" else mount.options
            mounted.update(dict.fromkeys(names, mount.target))
    found = []
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        where = mounted.get(controllers.split(",")[0])
        if where is not None:
            found.append(where + path)
    return tuple(found)


def settings_for(limits: ResourceLimits, controller: str, v2: bool) -> dict[str, str]:
    """File name → value that sets a limit, in the words of that version."""
    if controller == "memory" and limits.memory is not None:
        return {"memory.max" if v2 else "memory.limit_in_bytes": str(limits.memory)}
    if controller == "pids" and limits.pids is not None:
        return {"pids.max": str(limits.pids)}
    if controller == "cpu" and limits.cpus is not None:
        quota = str(int(limits.cpus * _CPU_PERIOD))
        if v2:
            return {"cpu.max": f"{quota} {_CPU_PERIOD}"}
        return {"cpu.cfs_period_us": str(_CPU_PERIOD), "cpu.cfs_quota_us": quota}
    return {}


def together(memory: int, numbers: int) -> ResourceLimits:
    """What all sandboxes together may have of a machine with so much memory and so many pids."""
    reserve = min(max(memory // 8, _LEAST_RESERVE), _MOST_RESERVE, memory // 2)
    return ResourceLimits(memory=memory - reserve, pids=numbers * 7 // 8)


def of_this_machine() -> ResourceLimits:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    files = (Path("/proc/sys/kernel", name) for name in ("pid_max", "threads-max"))
    return together(memory, min(int(file.read_text(encoding="ascii")) for file in files))


def thaw(directories: Sequence[str]) -> None:
    """On v1 SIGKILL ends a frozen process, as after `docker pause`, only when it is thawed."""
    for directory in directories:
        for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            path = Path(directory, name)
            with contextlib.suppress(OSError):
                if path.exists():
                    path.write_text(value, encoding="ascii")


def frozen_group(directories: Sequence[str]) -> bool:
    """Whether a process that joins these groups would be frozen, as after `docker pause`."""
    return any(
        _says(Path(directory, name), *frozen_words)
        for directory in directories
        for name, frozen_words in _FROZEN.items()
    )


def _says(file: Path, *words: str) -> bool:
    """A directory of the other version has no such file."""
    try:
        return file.read_text(encoding="ascii").strip() in words
    except OSError:
        return False


def out_of_memory(directories: Sequence[str]) -> int:
    """How often the kernel has killed a process of these groups because their memory was full."""
    most = 0
    for directory in directories:
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                words = Path(directory, name).read_text(encoding="ascii").split()
                counts = dict(zip(words[::2], words[1::2], strict=False))
                most = max(most, int(counts.get("oom_kill", 0)))
    return most


class Cgroups:
    """Directories gitmoat-INSTANCE/NAME in each hierarchy that is used; those of sidecars are in
    gitmoat-INSTANCE-sidecars, unless an earlier version made them."""

    def __init__(
        self,
        instance: str,
        hierarchies: Hierarchies | None = None,
        all_sandboxes: ResourceLimits | None = None,
    ) -> None:
        self._hierarchies = hierarchies or find_hierarchies()
        self._parent = f"gitmoat-{instance}"
        self._all_rooms = all_sandboxes or of_this_machine()

    def make(self, name: str, limits: ResourceLimits) -> tuple[str, ...]:
        """The directories that a process of this group joins."""
        for hierarchy in self._hierarchies.all():
            self._place(hierarchy, name).mkdir(parents=True, exist_ok=True)
        for controller, hierarchy in self._hierarchies.limiting.items():
            self._limit_all_sandboxes(hierarchy, controller)
            self._limit(hierarchy, name, controller, limits)
        return self.directories(name)

    def directories(self, name: str) -> tuple[str, ...]:
        return tuple(str(self._place(h, name)) for h in self._hierarchies.all())

    def _place(self, hierarchy: Path, name: str) -> Path:
        old = hierarchy / self._parent / name
        if not name.endswith("-sidecar") or old.is_dir():
            return old
        return hierarchy / f"{self._parent}-sidecars" / name

    def _parents(self) -> list[Path]:
        names = (self._parent, f"{self._parent}-sidecars")
        return [hierarchy / name for hierarchy in self._hierarchies.all() for name in names]

    def identity(self, name: str) -> int | None:
        """The inode of its v2 directory, which is cgroupid in PIDFD_GET_INFO (Linux 6.13)."""
        unified = self._hierarchies.unified
        return None if unified is None else self._place(unified, name).stat().st_ino

    def names(self) -> set[str]:
        """All groups, also those of sandboxes without a record."""
        return {
            child.name
            for parent in self._parents()
            if parent.is_dir()
            for child in parent.iterdir()
            if child.is_dir()
        }

    def kill(self, name: str) -> None:
        for pid in self._processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self, name: str) -> None:
        """Raises OSError while a process is left in it."""
        for hierarchy in self._hierarchies.all():
            with contextlib.suppress(FileNotFoundError):
                self._place(hierarchy, name).rmdir()

    def remove_parent(self) -> None:
        for parent in self._parents():
            with contextlib.suppress(FileNotFoundError):
                parent.rmdir()

    def _limit(self, hierarchy: Path, name: str, controller: str, limits: ResourceLimits) -> None:
        v2 = self._hierarchies.is_unified(controller)
        settings = settings_for(limits, controller, v2)
        if settings and v2:
            _enable(controller, hierarchy, self._place(hierarchy, name).parent)
        for file, value in settings.items():
            (self._place(hierarchy, name) / file).write_text(value, encoding="ascii")

    def _limit_all_sandboxes(self, hierarchy: Path, controller: str) -> None:
        """Each sandbox has its own limits besides; they hold also where these cannot be set."""
        v2 = self._hierarchies.is_unified(controller)
        group = hierarchy / self._parent
        settings = settings_for(self._all_rooms, controller, v2)
        with contextlib.suppress(OSError):
            group.mkdir(exist_ok=True)
            if v2:  # it also makes the kernel share the processor equally among the children
                _enable(controller, hierarchy, group)
            for file, value in settings.items():
                (group / file).write_text(value, encoding="ascii")

    def _processes(self, name: str) -> Iterator[int]:
        for hierarchy in self._hierarchies.all()[:1]:
            with contextlib.suppress(FileNotFoundError):
                text = (self._place(hierarchy, name) / "cgroup.procs").read_text("ascii")
                yield from map(int, text.split())


def _enable(controller: str, *parents: Path) -> None:
    for parent in parents:
        (parent / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
