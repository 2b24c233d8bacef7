"""One cgroup per room: the kernel's own label for who belongs to which sandbox."""

from __future__ import annotations

from pathlib import Path


def unified_mount() -> Path | None:
    """Where cgroup v2 is mounted on this host (alone or beside v1), if it is."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            return Path(fields.split(" ")[4])
    return None


class Cgroups:
    """Directories below gitmoat-INSTANCE in the v2 hierarchy; none where there is no v2."""

    def __init__(self, instance: str) -> None:
        mount = unified_mount()
        self._parent = mount / f"gitmoat-{instance}" if mount is not None else None

    def make(self, name: str) -> Path | None:
        if self._parent is None:
            return None
        self._parent.mkdir(exist_ok=True)
        directory = self._parent / name
        directory.mkdir(exist_ok=True)
        return directory

    def remove(self, name: str) -> None:
        """Only works when no process is left in it, which is what we want to know."""
        if self._parent is not None and (self._parent / name).exists():
            (self._parent / name).rmdir()

    def remove_parent(self) -> None:
        if self._parent is not None and self._parent.exists():
            self._parent.rmdir()


def identifier(directory: Path | None) -> int | None:
    """What PIDFD_GET_INFO calls the cgroup id is the inode of its directory."""
    return None if directory is None else directory.stat().st_ino
