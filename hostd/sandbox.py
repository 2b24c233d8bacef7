"""One sandbox: what was asked for, and what was made for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen
from twisted.internet.defer import DeferredLock

from gitwire.repository import RepositoryPath
from hostd.cgroups import ResourceLimits
from hostd.environment import UNTRUSTED
from hostd.failures import Failed
from hostd.messages import Room
from hostd.registry import Record
from hostd.runtimes.bwrap import WORKSPACE, Directories, StartedRoom
from hostd.sealed import Mount
from hostd.sidecars import SidecarSupervisor
from hostd.workdir import Workdir
from netpolicy.kind import NamedRepository
from netpolicy.nftables import Uids
from netpolicy.policy import Policy
from netpolicy.upstreams import Upstream, UpstreamTable

if TYPE_CHECKING:
    from hostd.outputs import Keeper


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

    @property
    def named(self) -> NamedRepository:
        return NamedRepository(self.upstream.name, self.path, self.upstream.case_insensitive)

    def to_json(self) -> dict[str, str]:
        return {"url": self.url, "directory": self.directory}

    def gate_url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}/{self.upstream.hosts[0]}/{self.path.text}.git"


# The image of a container that somebody else starts, and that `attach` is told of.
FOREIGN = ""


@frozen
class PolicySource:
    """The installed policy a sandbox was started with, and --push and --allow-host beside it."""

    name: str
    push: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "push": list(self.push), "hosts": list(self.hosts)}


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
    limits: ResourceLimits
    workdir: Workdir | None = None
    source: PolicySource | None = None
    image: str | None = None

    @property
    def foreign(self) -> bool:
        """Its container is not ours to make, to start or to end."""
        return self.image == FOREIGN


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
    upstreams: UpstreamTable
    record: Record
    state: str = "creating"
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

    def network(self) -> Room:
        """To join the network namespace alone."""
        room = self.holder or self.room
        if room is None:
            raise Failed("R106", f"sandbox {self.plan.name} is not running")
        return room.join(network_only=True)

    def rooms(self) -> dict[str, StartedRoom | None]:
        """Those that must stand while it runs, or, if its container is another's, is prepared."""
        if self.plan.image is None:
            return {"room": self.room, "gate": self.gate}
        rooms = {"gate": self.gate, "holder": self.holder}
        return rooms if self.plan.foreign and self.room is None else {"room": self.room, **rooms}

    def close_descriptors(self) -> None:
        for descriptor in (*self.descriptors, *self.listeners):
            os.close(descriptor)
        self.descriptors.clear()
        self.listeners = ()
        self.namespace = -1

    def summary(self) -> dict[str, Any]:
        return {
            "sandbox": self.plan.id,
            "name": self.plan.name,
            "runtime": self.plan.runtime,
            "state": self.state,
            "policy": self.plan.policy.name,
            "created": self.record.created,
            "exit": self.record.exit_status,
        }

    def inspection(self) -> dict[str, Any]:
        sidecar = self.sidecar
        uids = self.plan.uids
        return {
            "schema": "gitmoat.inspect/1",
            **self.summary(),
            "ended": self.record.ended,
            "pid": self.room.pid if self.room else None,
            "netns": self.record.netns,
            "container": self.container.id if self.container else None,
            "image": self.plan.image,
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
            "workdir": self.record.workdir,
        }
