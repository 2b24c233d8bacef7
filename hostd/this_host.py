"""What every sandbox of this host is made with, and the paths of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import frozen

import credential_helper
from gitmoat.audit.journal import Journal
from gitmoat.identity.peer import Means
from gitmoat.paths import Paths
from hostd.broker_link.grants import Grants
from hostd.broker_link.host_keys import Keys
from hostd.config import GateTimes
from hostd.docker.containers import Containers
from hostd.process.cgroups import Cgroups
from hostd.process.fork_client import reap_unawaited
from hostd.process.launcher_client import LauncherClient, ZygoteClient
from hostd.process.programs import Programs
from hostd.registry import Registry
from hostd.sandbox.bwrap import Directories
from hostd.sandbox.workdir import Workdirs
from netpolicy.author import Author

CGROUPS = ("sandbox", "gate", "sidecar")


@frozen
class Host:
    reactor: Any
    paths: Paths
    launcher: LauncherClient
    zygote: ZygoteClient
    programs: Programs
    grants: Grants
    registry: Registry
    cgroups: Cgroups
    journal: Journal
    workdirs: Workdirs
    containers: Containers
    broker_address: tuple[str, int]
    keys: Keys
    gate_times: GateTimes
    author: Author
    peer_means: Means
    shown: tuple[str, ...] = ()

    def directories(self, identifier: str) -> Directories:
        state = self.registry.parent / identifier
        return Directories(
            etc=state / "etc",
            workspace=state / "workspace",
            home=state / "home",
            gate=state / "gate",
            run=self.paths.sandboxes_run / identifier,
            helper=Path(credential_helper.__path__[0]),
        )

    def reap_unawaited(self) -> None:
        reap_unawaited(self.launcher, self.zygote)

    def sidecar_log(self, identifier: str) -> Path:
        """One file for each sidecar: RLIMIT_FSIZE limits what a sidecar may write."""
        return self.paths.log_dir / f"sidecar-{identifier}.log"

    def control_path(self, identifier: str) -> Path:
        return self.paths.control_dir / f"{identifier}.sock"
