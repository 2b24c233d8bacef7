"""Work directories: a directory of the host as a sandbox's /workspace.

It is opened once, without following symlinks, checked, and mounted by that descriptor; its path is
never resolved again. One live sandbox has it at a time. An idmapped mount (mount_setattr(2)) shows
its owner's files as the untrusted uid's and gives new ones to the owner. hostd never walks, opens
or changes anything below it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from gitmoat.confine import mounts
from gitmoat.confine.opened import Identity, identity, lineage, open_directory
from gitmoat.paths import Paths
from hostd.failures import Failed
from hostd.process.requests import Ids
from hostd.sandbox.bwrap import WORKSPACE
from hostd.sandbox.forbidden_places import why_not

MakeIdmap = Callable[[Ids, Ids], Awaitable[int]]

_COPY = "copy the files instead: hostctl cp DIR S:/workspace, and back"


@frozen
class Workdir:
    """What was asked for; once it was opened, device and inode say which directory it is."""

    path: str
    read_only: bool
    device: int = 0
    inode: int = 0

    @property
    def identity(self) -> Identity:
        return self.device, self.inode

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any] | None) -> Workdir | None:
        return None if data is None else Workdir(**data)


def parse_workdir(data: Mapping[str, Any] | None) -> Workdir | None:
    """From a request: an absolute path in its shortest spelling, and whether to write to it."""
    if data is None:
        return None
    path, read_only = data.get("path"), data.get("read_only")
    if isinstance(path, str) and isinstance(read_only, bool) and len(data) == 2 and _plain(path):
        return Workdir(path, read_only)
    raise Failed("C105", "a work directory is given by its absolute path", exit_code=2)


def _plain(path: str) -> bool:
    # normpath keeps two leading slashes, as POSIX lets it.
    absolute = path.startswith("/") and not path.startswith("//")
    return absolute and "\0" not in path and os.path.normpath(path) == path


@frozen
class _Held:
    """The checked directory, and its owner at that time."""

    descriptor: int
    uid: int
    gid: int
    read_only: bool

    @property
    def mapped(self) -> bool:
        """A directory of root's is mounted without a map: the sandbox reads what others may."""
        return self.uid != 0 and self.gid != 0


class Workdirs:
    """Which sandbox has which work directory, and its mount while the sandbox is being made."""

    def __init__(self, paths: Paths, idmap: MakeIdmap) -> None:
        self._paths = paths
        self._idmap = idmap
        self._held: dict[str, _Held] = {}

    def claim(self, sandbox: str, wanted: Workdir) -> Workdir:
        """Opens, checks and keeps a directory for one sandbox, without an await in between."""
        descriptor = _open(wanted)
        try:
            held = self._checked(descriptor, wanted)
        except BaseException:
            os.close(descriptor)
            raise
        self._held[sandbox] = held
        device, inode = identity(descriptor)
        return evolve(wanted, device=device, inode=inode)

    def adopt(self, sandbox: str, workdir: Workdir, first: int) -> None:
        """For a sandbox that runs already: by its path, or by what is mounted in the sandbox, of
        which `first` is the first process."""
        try:
            descriptor = _open(workdir)
        except Failed:
            descriptor = -1
        if descriptor < 0 or identity(descriptor) != workdir.identity:
            if descriptor >= 0:
                os.close(descriptor)
            inside = f"/proc/{first}/root{WORKSPACE}"
            descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        found = os.fstat(descriptor)
        self._held[sandbox] = _Held(descriptor, found.st_uid, found.st_gid, workdir.read_only)

    def release(self, sandbox: str) -> None:
        held = self._held.pop(sandbox, None)
        if held is not None:
            os.close(held.descriptor)

    async def mount(self, sandbox: str, uid: int) -> Path:
        """Where bwrap finds the directory; to be unmounted once bwrap has mounted it itself."""
        held = self._held[sandbox]
        target = self._paths.workdir_mounts / sandbox
        target.mkdir(mode=0o700)
        table = await self._table(held, uid) if held.mapped else None
        try:
            _mount(held, table, str(target))
        finally:
            if table is not None:
                os.close(table)
        return target

    async def _table(self, held: _Held, uid: int) -> int:
        try:
            uids = Ids(on_disk=held.uid, shown=uid)
            return await self._idmap(uids, Ids(on_disk=held.gid, shown=uid))
        except Failed as problem:
            raise _cannot(problem.why) from None

    def unmount(self, sandbox: str) -> None:
        target = self._paths.workdir_mounts / sandbox
        mounts.detach(str(target))
        with suppress(FileNotFoundError):
            target.rmdir()

    def sweep(self) -> None:
        """Removes what a killed hostd left: a sandbox that runs has its own mount by now."""
        for target in self._paths.workdir_mounts.iterdir():
            self.unmount(target.name)

    def _checked(self, descriptor: int, wanted: Workdir) -> _Held:
        if wanted.inode and identity(descriptor) != wanted.identity:
            raise _refused(
                wanted.path,
                "another directory is there than when the sandbox was made",
                "put the old one back, or make a new sandbox",
            )
        why = why_not(wanted.path, descriptor, self._paths)
        if why is not None:
            raise _refused(wanted.path, why, "make a directory for the sandbox alone")
        found = os.fstat(descriptor)
        held = _Held(descriptor, found.st_uid, found.st_gid, wanted.read_only)
        if not held.mapped and not held.read_only:
            raise _refused(
                wanted.path,
                "it belongs to root or to root's group, and so would what the sandbox makes in it",
                f"chown it to an ordinary user, add :ro, or {_COPY}",
            )
        self._check_unused(descriptor, wanted.path)
        return held

    def _check_unused(self, descriptor: int, path: str) -> None:
        above = lineage(descriptor)
        for sandbox, other in self._held.items():
            if identity(other.descriptor) in above or above[0] in lineage(other.descriptor):
                raise Failed(
                    "R111",
                    f"{path} is in use by sandbox {sandbox}",
                    why="one lies in the other, or they are the same",
                    fix=f"hostctl stop {sandbox}, or another directory",
                )


def _open(wanted: Workdir) -> int:
    try:
        return open_directory(wanted.path)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            fix = "if you trust where it leads, give that path; realpath DIR prints it"
            raise _refused(wanted.path, "a part of the path is a symbolic link", fix) from None
        why = os.strerror(problem.errno or 0)
        raise _refused(wanted.path, why, "give the path of an existing directory") from None


def _refused(path: str, why: str, fix: str) -> Failed:
    return Failed("R110", f"{path} cannot be a work directory", why=why, fix=fix)


def _cannot(why: str) -> Failed:
    what = "this directory cannot be shown to another uid"
    return Failed("R109", what, why=f"kernel or file system: {why}", fix=_COPY)


def _mount(held: _Held, table: int | None, target: str) -> None:
    tree = mounts.clone_mount(held.descriptor)
    try:
        mounts.restrict(tree, held.read_only, table)
        mounts.attach(tree, target)
    except OSError as problem:
        raise _cannot(str(problem)) from None
    finally:
        os.close(tree)
