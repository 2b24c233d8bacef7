"""Wires hostd together: directories, parts, what an earlier hostd left, and the control socket."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gitmoat.audit.events import DaemonStarted, DaemonStopped, PeerRefused
from gitmoat.audit.journal import open_journal
from gitmoat.confine import linux
from gitmoat.identity.control_socket import listen_control
from gitmoat.identity.directories import make_private_directory
from gitmoat.identity.keyfile import load_key
from gitmoat.identity.peer import find_means
from gitmoat.paths import Paths
from gitmoat.version import VERSION
from hostd.api.admin import serve_admin
from hostd.api.operations import Operations
from hostd.broker_link.broker_client import BrokerClient
from hostd.broker_link.grants import Grants
from hostd.broker_link.helper_config import HelperFiles
from hostd.broker_link.helper_link import HelperLink
from hostd.broker_link.host_keys import Keys
from hostd.config import Config, load_config
from hostd.docker.containers import Containers
from hostd.docker.engine import Engine
from hostd.docker.mount_check import MountCheck
from hostd.failpoints import Failpoints
from hostd.process.cgroups import Cgroups
from hostd.process.fork_client import ForkClient
from hostd.process.launcher_client import LauncherClient, ZygoteClient
from hostd.process.programs import Programs
from hostd.registry import Registry
from hostd.sandbox.adoption import take_over
from hostd.sandbox.uids import check_subordinate
from hostd.sandbox.workdir import Workdirs
from hostd.sandboxes import Sandboxes
from hostd.this_host import Host
from hostd.watchdog import Watchdog

_log = Logger()


class Service:
    """`open` does everything that can fail before hostd says that it is ready."""

    def __init__(self, reactor: Any, paths: Paths, failpoints: Failpoints) -> None:
        self._reactor = reactor
        self._paths = paths
        self._failpoints = failpoints
        self._config: Config = load_config(paths.hostd_toml)
        self._keys = Keys(load_key(paths.host_key, 0), self._config.broker.key)
        self._watchdog: Watchdog | None = None

    def open(self) -> Deferred[None]:
        check_subordinate(self._config.uid_range)
        self._make_directories()
        listener = listen_control(self._paths.hostd_socket, root=self._paths.root)
        linux.adopt_orphans()
        self._journal = open_journal(self._paths.hostd_audit, self._config.host, time.time)
        siblings: list[ForkClient] = []
        self._launcher, self._zygote = (
            LauncherClient(self._reactor, siblings),
            ZygoteClient(self._reactor, siblings),
        )
        self._launcher.start()
        self._zygote.start()
        self._make_parts()
        self._reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        self._journal.record(DaemonStarted(name="hostd"))
        return Deferred.fromCoroutine(self._take_over(listener))

    async def _take_over(self, listener: socket.socket) -> None:
        """No request is answered before the sandboxes of an earlier hostd are adopted or ended."""
        found = await take_over(self._host, self._config.uid_range)
        sandboxes, config = self._sandboxes, self._config
        sandboxes.adopt(found)
        self._watchdog = Watchdog(
            self._host, sandboxes.live, sandboxes.freeze, config.watchdog.interval
        )
        serve_admin(self._reactor, listener, self._operations.table, self._refused)
        self._helpers.start()

    def _make_directories(self) -> None:
        root = self._paths.root
        state = self._paths.hostd_state
        for path in (self._paths.run, state, state / "sandboxes"):
            make_private_directory(path, 0o700, 0, 0, root=root)
        for path in (self._paths.sandboxes_run, self._paths.control_dir, self._paths.log_dir):
            make_private_directory(path, 0o700, 0, 0, root=root)
        make_private_directory(self._paths.workdir_mounts, 0o700, 0, 0, root=root)
        make_private_directory(self._paths.run / "empty", 0o555, 0, 0, root=root)

    def _make_parts(self) -> None:
        config = self._config
        self._engine = Engine(self._reactor, config.docker.socket)
        broker = BrokerClient(self._reactor, config.broker.address, self._keys)
        host = Host(
            reactor=self._reactor,
            paths=self._paths,
            launcher=self._launcher,
            zygote=self._zygote,
            programs=Programs(self._reactor, self._launcher),
            grants=Grants(config.host, self._keys, broker, self._journal),
            registry=Registry(self._paths.hostd_state / "sandboxes", self._failpoints),
            cgroups=Cgroups(_instance(self._paths.root)),
            journal=self._journal,
            workdirs=Workdirs(self._paths, self._launcher.ask_map_ids),
            containers=Containers(
                self._reactor,
                self._engine,
                _instance(self._paths.root),
                self._paths.hostd_state / "pause",
                MountCheck(self._paths, self._engine),
            ),
            broker_address=config.broker.address,
            keys=self._keys,
            gate_times=config.gate,
            author=config.author,
            peer_means=find_means(),
            shown=config.runtime.show,
        )
        self._host = host
        self._sandboxes = Sandboxes(host, broker, config.uid_range)
        files = HelperFiles(self._paths, config.uid_range)
        self._helpers = HelperLink(self._reactor, files, self._launcher, self._journal)
        self._operations = Operations(host, broker, self._sandboxes, VERSION, config)

    def _refused(self, uid: int) -> None:
        self._journal.record(PeerRefused(code="C102", peer_uid=uid, op="hostd.sock"))

    def _stop(self) -> None:
        """Sandboxes go on, and the next hostd adopts them; `hostctl down` stops them first."""
        if self._watchdog is not None:
            self._watchdog.stop()
        self._helpers.stop()
        for sandbox in self._sandboxes.live():
            if sandbox.sidecar is not None:
                sandbox.sidecar.leave()
        self._launcher.stop()
        self._zygote.stop()
        self._engine.stop()
        if not self._sandboxes.live():
            self._host.cgroups.remove_parent()
        self._paths.hostd_socket.unlink(missing_ok=True)
        self._journal.record(DaemonStopped(name="hostd"))
        self._journal.close()


def _instance(root: Path) -> str:
    """Tells two hostd on one machine apart in the cgroup tree and in Docker."""
    found = root.stat()
    return f"{found.st_dev:x}-{found.st_ino:x}"
