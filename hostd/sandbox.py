"""One sandbox: what was asked for, and what was made for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from gitwire.repository import RepositoryPath
from hostd.runtimes.bwrap import WORKSPACE, Directories, StartedRoom
from hostd.sidecars import SidecarSupervisor
from netpolicy.nftables import Uids
from netpolicy.policy import Policy
from netpolicy.upstreams import Upstream


@frozen
class Repository:
    """A repository to be cloned into the workspace, as typed and as understood."""

    url: str
    upstream: Upstream
    path: RepositoryPath
    directory: str

    @property
    def name(self) -> str:
        return self.path.text.rpartition("/")[2]

    def gate_url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}/{self.upstream.hosts[0]}/{self.path.text}.git"


@frozen
class Plan:
    """Everything decided before anything is made."""

    id: str
    name: str
    runtime: str
    uid_index: int
    uids: Uids
    policy: Policy
    policy_hash: str
    repositories: tuple[Repository, ...]
    agent: bool


@define(eq=False)
class Sandbox:
    plan: Plan
    directories: Directories
    state_directory: Path
    created: int
    state: str = "creating"
    epoch: int = 1
    room: StartedRoom | None = None
    gate: StartedRoom | None = None
    netns: int = 0
    descriptors: list[int] = field(factory=list)
    listeners: tuple[int, ...] = ()
    sidecar: SidecarSupervisor | None = None
    expires: float = 0.0
    cgroups: dict[str, Path | None] = field(factory=dict)
    exit_status: int | None = None

    def cgroup(self, room: str) -> str | None:
        directory = self.cgroups.get(room)
        return None if directory is None else str(directory)

    def close_descriptors(self) -> None:
        for descriptor in (*self.descriptors, *self.listeners):
            os.close(descriptor)
        self.descriptors.clear()
        self.listeners = ()

    def summary(self) -> dict[str, Any]:
        return {
            "sandbox": self.plan.id,
            "name": self.plan.name,
            "runtime": self.plan.runtime,
            "state": self.state,
            "policy": self.plan.policy.name,
            "created": self.created,
            "exit": self.exit_status,
        }

    def inspection(self) -> dict[str, Any]:
        sidecar = self.sidecar
        uids = self.plan.uids
        return {
            "schema": "gitmoat.inspect/1",
            **self.summary(),
            "pid": self.room.pid if self.room else None,
            "netns": self.netns,
            "container": None,
            "epoch": self.epoch,
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
                "expires": int(self.expires) or None,
            },
            "policy": {"name": self.plan.policy.name, "sha256": self.plan.policy_hash},
            "repositories": [repository.url for repository in self.plan.repositories],
            "workspace": WORKSPACE,
        }
