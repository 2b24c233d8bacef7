"""Which mounts of a container that somebody else started are places of the host. Pure.

The kernel's list of mounts decides (proc_pid_mountinfo(5)): a device and a path in that file
system, not the path that somebody typed. A mount is refused if it is a forbidden place, contains
one, or lies in one, through whatever name, link or bind mount. Other file systems may be mounted
below a forbidden place (`/dev/shm`, `/sys/fs/cgroup`), so the paths at which the host has the same
files are compared as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from attrs import frozen

from hostd.process.proc import MountLine, Place

# Docker's own: made of files below its directory, for every container.
_DOCKERS_FILES = ("/etc/resolv.conf", "/etc/hostname", "/etc/hosts")
_CGROUPS = ("cgroup", "cgroup2")


def locate(path: str, mounts: Collection[MountLine]) -> Place:
    """Where the host keeps a path that has no symbolic link in it."""
    wanted = PurePosixPath(path)
    over = [each for each in mounts if wanted.is_relative_to(each.target)]
    # The longest target; of two mounts at one place the later one covers the earlier.
    mount = max(enumerate(over), key=lambda pair: (len(pair[1].target), pair[0]))[1]
    rest = wanted.relative_to(mount.target)
    return Place(mount.place.device, mount.place.path / rest)


@frozen
class Forbidden:
    """`name` is a path as the host calls it, `path` the same without links. `below`: what lies in
    it is forbidden too."""

    name: str
    path: PurePosixPath
    place: Place
    below: bool = True


def forbidden(name: str, path: str, mounts: Collection[MountLine], below: bool) -> Forbidden:
    return Forbidden(name, PurePosixPath(path), locate(path, mounts), below)


def seen_at(place: Place, mounts: Iterable[MountLine]) -> list[PurePosixPath]:
    """Every path by which the host sees a place, also where another mount covers it now."""
    return [
        PurePosixPath(each.target) / place.path.relative_to(each.place.path)
        for each in mounts
        if each.place.holds(place)
    ]


@frozen
class DockerMade:
    """What Docker itself mounts in a container: named by the container's id, the id of its netns
    holder, whose files in /etc it gets, and its volumes that are no place of the host."""

    container: str
    holder: str
    volumes: Collection[str]


def of_the_host(inside: Iterable[MountLine], made: DockerMade) -> list[MountLine]:
    """Mounts that are not the container's own root, cgroup, files of Docker, or plain volumes."""
    return [each for each in inside if not _own(each, made)]


def _own(mount: MountLine, made: DockerMade) -> bool:
    if mount.target == "/":
        return True
    parts = mount.place.path.parts
    if mount.kind in _CGROUPS:
        # Its own cgroup, read-only: from another one, or the root, it could see and change the
        # host's (a writable v1 hierarchy has release_agent: CVE-2022-0492).
        own = parts[-1].removeprefix("docker-").removesuffix(".scope") == made.container
        there = PurePosixPath(mount.target).is_relative_to("/sys/fs/cgroup")
        return own and there and mount.read_only
    if mount.target in _DOCKERS_FILES:
        return parts[-3:] == ("containers", made.holder, PurePosixPath(mount.target).name)
    return parts[-3:-2] == ("volumes",) and parts[-2] in made.volumes and parts[-1] == "_data"


def why_forbidden(
    mount: MountLine, places: Iterable[Forbidden], outside: Collection[MountLine]
) -> str | None:
    """`outside` is the host's own list of mounts."""
    paths = seen_at(mount.place, outside)
    for each in places:
        if mount.place == each.place or each.path in paths:
            return f"{mount.target} is {each.name}"
        if mount.place.holds(each.place) or any(each.path.is_relative_to(path) for path in paths):
            return f"{mount.target} has {each.name}"
        inside = each.place.holds(mount.place) or any(
            path.is_relative_to(each.path) for path in paths
        )
        if each.below and inside:
            return f"{mount.target} lies in {each.name}"
    return None
