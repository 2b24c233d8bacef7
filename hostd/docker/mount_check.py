"""Checks the mounts of a container that somebody else started against the kernel's present list.

What may not be a work directory may not be mounted either, nor may the container engine's socket.
Each mount is also opened, through the container's own root: sockets and credentials are refused.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from gitmoat.confine.opened import open_inside
from gitmoat.paths import Paths
from hostd.docker.engine import Engine
from hostd.docker.mount_rules import (
    DockerMade,
    Forbidden,
    forbidden,
    locate,
    of_the_host,
    why_forbidden,
)
from hostd.process.proc import MountLine, mountinfo, parse_mountinfo
from hostd.sandbox.bwrap import RUN
from hostd.sandbox.forbidden_places import forbidden_places, why_credentials
from hostd.sandbox.sandbox import Sandbox


class MountCheck:
    """Checks every mount of a container against the kernel's present list."""

    def __init__(self, paths: Paths, engine: Engine) -> None:
        self._paths = paths
        self._engine = engine

    async def wrong(self, sandbox: Sandbox, found: dict[str, Any], pid: int) -> list[str]:
        holder = sandbox.holding.id if sandbox.holding else ""
        made = DockerMade(str(found["Id"]), holder, await self._plain_volumes(found))
        inside = parse_mountinfo(mountinfo(pid))
        outside = parse_mountinfo(mountinfo("self"))
        ours = locate(os.path.realpath(sandbox.directories.run), outside)
        mine = [each for each in inside if each.target == RUN and each.place == ours]
        missing = [] if mine and mine[0].read_only else [f"{RUN} is not mounted read-only in it"]
        rest = [each for each in of_the_host(inside, made) if each.place != ours]
        places = self._forbidden(outside)
        return missing + [
            why for each in rest if (why := _why(each, places, outside, pid)) is not None
        ]

    def shared(self, pid: int) -> list[str]:
        """Paths in a container at which files of the host or of a volume are mounted."""
        devices = _devices(parse_mountinfo(mountinfo("self")))
        return [
            each.target
            for each in parse_mountinfo(mountinfo(pid))
            if each.place.device in devices and each.target not in ("/", RUN)
        ]

    async def _plain_volumes(self, found: dict[str, Any]) -> set[str]:
        """A local volume with options can be any place of the host (docker-volume-create(1));
        one without is a directory of Docker's."""
        names = [m.get("Name") for m in found.get("Mounts") or () if m.get("Type") == "volume"]
        plain = set()
        for name in names:
            about = await self._engine.volume(str(name))
            if about.get("Driver") == "local" and not about.get("Options"):
                plain.add(str(name))
        return plain

    def _forbidden(self, outside: list[MountLine]) -> list[Forbidden]:
        places = [*forbidden_places(self._paths), (self._engine.socket, True)]
        return [forbidden(path, os.path.realpath(path), outside, below) for path, below in places]


def _devices(mounts: list[MountLine]) -> set[str]:
    return {each.place.device for each in mounts}


def _why(
    mount: MountLine, places: list[Forbidden], outside: list[MountLine], pid: int
) -> str | None:
    if mount.place.device not in _devices(outside):
        return None  # the host does not have this file system: a tmpfs, /dev, /proc of its own
    return why_forbidden(mount, places, outside) or _why_content(mount, pid)


def _why_content(mount: MountLine, pid: int) -> str | None:
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return "it has ended"
    try:
        descriptor = open_inside(root, mount.target)
    except OSError:  # another mount covers it, or Docker masks it: the container cannot reach it
        return None
    finally:
        os.close(root)
    try:
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return f"{mount.target} is a socket of the host"
        why = why_credentials(str(mount.place.path), descriptor)
        return None if why is None else f"{mount.target}: {why}"
    finally:
        os.close(descriptor)
