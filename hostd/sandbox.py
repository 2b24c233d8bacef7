"""One sandbox while hostd runs: its plan, its record, and what was made for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen
from twisted.internet.defer import DeferredLock

from hostd.environment import UNTRUSTED
from hostd.failures import Failed
from hostd.messages import Room
from hostd.plan import Plan, image_of
from hostd.registry import Record, Step
from hostd.runtimes.bwrap import WORKSPACE, Directories, StartedRoom
from hostd.sealed import Mount

if TYPE_CHECKING:
    from hostd.outputs import Keeper
    from hostd.sidecars import SidecarSupervisor


@frozen
class Container:
    """One of Docker's: which it is, and since it was started, which process that made."""

    id: str
    pid: int = 0
    started: str = ""
    cgroup: int | None = None
    mounts: tuple[Mount, ...] = ()
    filter: str | None = None  # of the system-call filter it was admitted with, the digest

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any] | None) -> Container | None:
        if data is None:
            return None
        mounts = tuple(Mount(**each) for each in data["mounts"])
        return Container(**{**data, "mounts": mounts})


@define(eq=False)
class Sandbox:
    """`record` is what the disk knows of it; the rest ends with hostd.

    With Docker `holder` is the room whose network it is, of the container `holding`.
    """

    plan: Plan
    directories: Directories
    record: Record
    room: StartedRoom | None = None
    gate: StartedRoom | None = None
    holder: StartedRoom | None = None
    holding: Container | None = None
    container: Container | None = None
    environment: Mapping[str, str] = UNTRUSTED
    descriptors: list[int] = field(factory=list)
    namespace: int = -1
    # The generation of the rules that were last read, and their hash, which was right.
    seen: tuple[int, str] | None = None
    listeners: tuple[int, ...] = ()
    sidecar: SidecarSupervisor | None = None
    output: Keeper | None = None
    cgroups: dict[str, tuple[str, ...]] = field(factory=dict)
    git_lock: DeferredLock = field(factory=DeferredLock)

    @property
    def step(self) -> Step:
        return self.record.step

    @property
    def running(self) -> bool:
        return self.record.step.runs

    def network(self) -> Room:
        """To join the network namespace alone."""
        room = self.holder or self.room
        if room is None:
            raise Failed("R106", f"sandbox {self.plan.name} is not running")
        return room.join(network_only=True)

    def rooms(self) -> dict[str, StartedRoom | None]:
        """Those that must stand while it runs, or, if its container is another's, is prepared."""
        if self.plan.ownership is None:
            return {"room": self.room, "gate": self.gate}
        rooms = {"gate": self.gate, "holder": self.holder}
        return rooms if self.plan.foreign and self.room is None else {"room": self.room, **rooms}

    def close_descriptors(self) -> None:
        for descriptor in (*self.descriptors, *self.listeners):
            os.close(descriptor)
        self.descriptors.clear()
        self.listeners = ()
        self.namespace = -1

    def inspection(self) -> dict[str, Any]:
        sidecar = self.sidecar
        uids = self.plan.uids
        return {
            "schema": "gitmoat.inspect/1",
            **self.record.summary(),
            "ended": self.record.ended,
            "pid": self.room.pid if self.room else None,
            "netns": self.record.netns,
            "container": self.container.id if self.container else None,
            "image": image_of(self.plan.ownership),
            "epoch": self.record.epoch,
            "uids": {
                "sidecar": uids.sidecar,
                "helper": uids.helper,
                "untrusted": uids.untrusted,
            },
            "sidecar": {
                "pid": sidecar.pid if sidecar else None,
                "restarts": sidecar.restarts if sidecar else 0,
            },
            "session": {
                "id": sidecar.session if sidecar else None,
                "expires": int(self.record.expires) or None,
            },
            "policy": {"name": self.plan.policy.name, "sha256": self.plan.policy_hash},
            "repositories": [repository.url for repository in self.plan.repositories],
            "workspace": WORKSPACE,
            "workdir": None if self.plan.workdir is None else self.plan.workdir.to_json(),
        }
