"""What of the host is mounted in a container that somebody else started. Pure.

Judged by the kernel's own list of its mounts: a device and a path in that file system, not the
path that was once typed. A mount is refused if it is a forbidden place, has one in it, or lies in
one; by whatever name, link or bind mount it got there. Below a forbidden place other file systems
may be mounted (`/dev/shm`, `/sys/fs/cgroup`): where the host sees the same files counts as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from attrs import frozen

_OCTAL = re.compile(r"\\([0-7]{3})")
# Docker's own: made of files below its directory, for every container.
_DOCKERS_FILES = ("/etc/resolv.conf", "/etc/hostname", "/etc/hosts")
_CGROUPS = ("cgroup", "cgroup2")


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


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def parse_mountinfo(text: str) -> list[MountLine]:
    found = []
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        _, _, device, root, target, options = fields.split(" ")[:6]
        place = Place(device, PurePosixPath(_plain(root)))
        kind = rest.split(" ")[0]
        found.append(MountLine(place, _plain(target), kind, "ro" in options.split(",")))
    return found


def locate(path: str, mounts: Collection[MountLine]) -> Place:
    """Where the host keeps a path that has no symbolic link in it."""
    wanted = PurePosixPath(path)
    over = [each for each in mounts if wanted.is_relative_to(each.target)]
    # The longest; of two at one place the later one covers the earlier.
    mount = max(enumerate(over), key=lambda pair: (len(pair[1].target), pair[0]))[1]
    rest = wanted.relative_to(mount.target)
    return Place(mount.place.device, mount.place.path / rest)


@frozen
class Forbidden:
    """`name` is what the host calls it, `path` the same without links; what is `below` is
    forbidden too unless it is only a top."""

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
class Ours:
    """What of a container's mounts Docker made for it: the container's id, the id of the holder
    of its network, whose files it gets, and its volumes that are no place of the host."""

    container: str
    holder: str
    volumes: Collection[str]


def of_the_host(inside: Iterable[MountLine], ours: Ours) -> list[MountLine]:
    """Mounts that are not the container's own root, group, files of Docker, or plain volumes."""
    return [each for each in inside if not _own(each, ours)]


def _own(mount: MountLine, ours: Ours) -> bool:
    if mount.target == "/":
        return True
    parts = mount.place.path.parts
    if mount.kind in _CGROUPS:
        # Its own group, read-only: another one, or the top, would show and give it the host's.
        own = parts[-1].removeprefix("docker-").removesuffix(".scope") == ours.container
        there = PurePosixPath(mount.target).is_relative_to("/sys/fs/cgroup")
        return own and there and mount.read_only
    if mount.target in _DOCKERS_FILES:
        return parts[-3:] == ("containers", ours.holder, PurePosixPath(mount.target).name)
    return parts[-3:-2] == ("volumes",) and parts[-2] in ours.volumes and parts[-1] == "_data"


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
