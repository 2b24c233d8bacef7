"""What of the host is mounted in a container that somebody else started. Pure.

Judged by the kernel's own list of its mounts: a device and a path in that file system, not the
path that was once typed. A mount is refused if it is a forbidden place, has one in it, or lies in
one; by whatever name, link or bind mount it got there.
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
    """`name` is what the host calls it; `below` is forbidden too unless it is only a top."""

    name: str
    place: Place
    below: bool = True


def of_the_host(
    inside: Iterable[MountLine], container: str, volumes: Collection[str]
) -> list[MountLine]:
    """Mounts that are not the container's own root, groups, files of Docker, or plain volumes."""
    return [each for each in inside if not _own(each, container, volumes)]


def _own(mount: MountLine, holder: str, volumes: Collection[str]) -> bool:
    if mount.target == "/":
        return True
    if mount.kind in _CGROUPS:
        return PurePosixPath(mount.target).is_relative_to("/sys/fs/cgroup")
    parts = mount.place.path.parts
    if mount.target in _DOCKERS_FILES:
        return parts[-3:] == ("containers", holder, PurePosixPath(mount.target).name)
    return parts[-3:-2] == ("volumes",) and parts[-2] in volumes and parts[-1] == "_data"


def why_forbidden(mount: MountLine, forbidden: Iterable[Forbidden]) -> str | None:
    for each in forbidden:
        if mount.place.holds(each.place):
            same = mount.place == each.place
            return f"{mount.target} is {each.name}" if same else f"{mount.target} has {each.name}"
        if each.below and each.place.holds(mount.place):
            return f"{mount.target} lies in {each.name}"
    return None
