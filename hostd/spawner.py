"""What hostd asks launcher and zygote for: typed requests out, processes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from hostd.forks import Forks
from hostd.process import Process


@frozen
class Room:
    """Whose namespaces a command joins: the pidfd of that room's first process."""

    pidfd: int
    namespaces: tuple[str, ...]


@frozen
class Person:
    """An account of this host; only its own programs are run with its groups."""

    gid: int
    groups: tuple[int, ...]


@frozen
class Command:
    """uid 0 is only for hostd's own tools (bwrap, nft, rm); all else is confined."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    stdio: Sequence[int]
    uid: int = 0
    cwd: str = "/"
    room: Room | None = None
    cgroups: Sequence[str] = ()
    tty: bool = False
    limits: Mapping[str, int | None] = Factory(lambda: {"open_files": 4096})
    # Instead of a program: what `hostd.attempts` has, in the place of one.
    attempts: Sequence[Sequence[Any]] | None = None
    person: Person | None = None
    # The sandbox whose code may hold it up, if any.
    cause: str = ""

    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = {
            "op": "execute" if self.attempts is None else "probe",
            "attempts": self.attempts,
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "cwd": self.cwd,
            "uid": self.uid,
            "cgroups": list(self.cgroups),
            "tty": self.tty,
            "limits": dict(self.limits),
            "keep": len(self.stdio),
            "cause": self.cause,
        }
        if self.person is not None:
            request["person"] = {"gid": self.person.gid, "groups": list(self.person.groups)}
        if self.room is not None:
            request |= {"room": len(self.stdio), "namespaces": list(self.room.namespaces)}
        return request

    def descriptors(self) -> list[int]:
        return [*self.stdio, *([self.room.pidfd] if self.room else [])]


class Spawner(Forks):
    """The launcher: commands, tools, and what is done and seen in namespaces."""

    module = "hostd.launcher"

    async def listen(self, netns: int, uid: int, credential: str, control: str) -> list[int]:
        """Sysctls set and listeners made in a network namespace; descriptors as `Inherited`."""
        request = {"op": "listen", "uid": uid, "credential": credential, "control": control}
        _, descriptors = await self._ask(request, [netns])
        return descriptors

    async def survey(self, netns: int) -> dict[str, list[str]]:
        answer, _ = await self._ask({"op": "survey"}, [netns])
        found: dict[str, list[str]] = answer["found"]
        return found

    async def idmap(self, uids: tuple[int, int], gids: tuple[int, int]) -> int:
        """A descriptor for an idmapped mount: (id on disk, id shown)."""
        _, descriptors = await self._ask({"op": "idmap", "uids": uids, "gids": gids}, [])
        return descriptors[0]

    async def execute(self, command: Command) -> Process:
        return await self._spawn(command.request(), command.descriptors())


class Nursery(Forks):
    """The zygote: sidecars."""

    module = "hostd.zygote"

    async def sidecar(
        self, uid: int, empty_root: str, cgroups: Sequence[str], descriptors: Sequence[int]
    ) -> Process:
        request = {
            "op": "sidecar",
            "uid": uid,
            "empty_root": empty_root,
            "cgroups": list(cgroups),
        }
        return await self._spawn(request, descriptors)
