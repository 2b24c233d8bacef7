"""The requests of hostd to the launcher and to the zygote, which have `answer_listen` and so on."""

from __future__ import annotations

from collections.abc import Sequence

from hostd.process.fork_client import ForkClient
from hostd.process.handle import Process
from hostd.process.requests import (
    Command,
    Done,
    Ids,
    Listen,
    MapIds,
    Probe,
    Sidecar,
    Survey,
    Surveyed,
)


class LauncherClient(ForkClient):
    """For commands, tools, and what is done in namespaces."""

    module = "hostd.launcher"

    async def ask_child(self, child: Command | Probe, stdio: Sequence[int]) -> Process:
        """A child that runs until its own end, with these descriptors as its 0, 1, 2, …"""
        joined = () if child.room is None else (child.room.pidfd,)
        return await self._start(child, [*stdio, *joined])

    async def ask_listen(self, netns: int, request: Listen) -> list[int]:
        """Descriptors of all listeners of the table, in its order."""
        _, descriptors = await self._ask(request, [netns], Done)
        return descriptors

    async def ask_survey(self, netns: int) -> Surveyed:
        found, _ = await self._ask(Survey(), [netns], Surveyed)
        return found

    async def ask_map_ids(self, uids: Ids, gids: Ids) -> int:
        """A descriptor for an idmapped mount."""
        _, descriptors = await self._ask(MapIds(uids=uids, gids=gids), [], Done)
        return descriptors[0]


class ZygoteClient(ForkClient):
    """For sidecars."""

    module = "hostd.zygote"

    async def ask_sidecar(self, request: Sidecar, descriptors: Sequence[int]) -> Process:
        return await self._start(request, descriptors)
