"""One sandbox while hostd runs: its plan, its record, and what was made for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen
from twisted.internet.defer import DeferredLock

from hostd.docker.sealing import Mount
from hostd.failures import Failed
from hostd.process.requests import Join
from hostd.registry import Record, Step
from hostd.sandbox.bwrap import WORKSPACE, Directories, FirstProcess
from hostd.sandbox.environment import UNTRUSTED
from hostd.sandbox.plan import Plan, image_of

if TYPE_CHECKING:
    from hostd.sandbox.outputs import OutputReader
    from hostd.sidecars.supervisor import SidecarSupervisor


@frozen
class Container:
    """A container of Docker's; once it was started, also its first process."""

    id: str
    pid: int = 0
    started: str = ""
    cgroup: int | None = None
    mounts: tuple[Mount, ...] = ()
    filter: str | None = None  # the digest of the system-call filter that it was admitted with

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
    """`record` is what is on disk; the rest ends with hostd.

    `first` is the first process of the sandbox itself, `gate` that of its git gate. With Docker
    `holder` is the first process of the netns holder, which is the container `holding`.
    """

    plan: Plan
    directories: Directories
    record: Record
    first: FirstProcess | None = None
    gate: FirstProcess | None = None
    holder: FirstProcess | None = None
    holding: Container | None = None
    container: Container | None = None
    environment: Mapping[str, str] = UNTRUSTED
    descriptors: list[int] = field(factory=list)
    namespace: int = -1
    # The generation of the rules when they were last read and found right, and their hash.
    seen: tuple[int, str] | None = None
    listeners: tuple[int, ...] = ()
    sidecar: SidecarSupervisor | None = None
    output: OutputReader | None = None
    cgroups: dict[str, tuple[str, ...]] = field(factory=dict)
    git_lock: DeferredLock = field(factory=DeferredLock)

    @property
    def step(self) -> Step:
        return self.record.step

    @property
    def running(self) -> bool:
        return self.record.step.runs

    def network(self) -> Join:
        """To join the network namespace alone."""
        first = self.holder or self.first
        if first is None:
            raise Failed("R106", f"sandbox {self.plan.name} is not running")
        return first.join(network_only=True)

    def first_processes(self) -> dict[str, FirstProcess | None]:
        """Those that must be alive while the sandbox runs or, for a container of others, is
        prepared; by their names in the record."""
        if self.plan.ownership is None:
            return {"room": self.first, "gate": self.gate}
        others = {"gate": self.gate, "holder": self.holder}
        return others if self.plan.foreign and not self.first else {"room": self.first, **others}

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
            "pid": self.first.pid if self.first else None,
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
