"""An installation on a root of its own that nobody has started yet."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from attrs import frozen

from gitmoat.paths import Paths
from hostctl.setup.defaults import broker_address, write_defaults
from tests.stage.command import Ran, begin_hostctl, run_hostctl
from tests.stage.kernel_view import processes
from tests.waiting import readable


@frozen
class Instance:
    root: Path

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return begin_hostctl(self.root, *words)

    def hostctl(self, *words: str) -> Ran:
        return run_hostctl(self.root, *words)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.hostctl("--json", "status").out)
        return found

    def running(self) -> list[str]:
        """Command lines of everything that was started for this root."""
        return [line for line in processes().values() if str(self.root) in line]

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = broker_address(self.paths).rpartition(":")
        return host, int(port)

    def files(self) -> dict[str, bytes | None]:
        """All there is below etc and run, and what is in it."""
        found = {}
        for folder in ("etc", "run"):
            for path in sorted((self.root / folder).rglob("*")):
                found[str(path.relative_to(self.root))] = (
                    path.read_bytes() if path.is_file() else None
                )
        return found

    def kill(self) -> None:
        """Ends its daemons without a word, as a crash would."""
        about = self.status()
        for name in ("hostd", "broker"):
            process = os.pidfd_open(about[name]["pid"])
            signal.pidfd_send_signal(process, signal.SIGKILL)
            readable(process, f"the end of {name}")
            os.close(process)

    def remove(self) -> None:
        self.hostctl("down", "--force")
        shutil.rmtree(self.root)


def make_instance(directory: str = "/tmp") -> Instance:
    root = Path(tempfile.mkdtemp(prefix="gm-", dir=directory))
    root.chmod(0o711)
    instance = Instance(root)
    write_defaults(instance.paths, f"127.0.0.1:{free_port()}")
    use_own_uids(instance.paths)
    return instance


def use_own_uids(paths: Paths) -> None:
    """Every instance has the same range. Two that make a sandbox at the same moment do not see
    each other's uids yet, so each begins to count somewhere else."""
    (paths.hostd_state / "last-uid-index").write_text(str(secrets.randbelow(90_000)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
