"""A Docker Engine of the tests' own: its own directory, its own socket, ended by its pid."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from attrs import define, field

from tests.docker.images import each
from tests.waiting import PATIENCE, ends_with_its_test, eventually

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@define(eq=False)
class TestEngine:
    """No bridge and no packet filter of its own: it changes nothing of the host's network."""

    __test__ = False
    directory: Path = field(factory=lambda: Path(tempfile.mkdtemp(prefix="gmd-", dir="/tmp")))
    options: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        return str(self.directory / "docker.sock")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        place = self.directory
        with (place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("dockerd", "--data-root", str(place / "data")),
                    *("--exec-root", str(place / "exec"), "--pidfile", str(place / "pid")),
                    *("-H", f"unix://{self.socket}", "--bridge=none"),
                    *("--iptables=false", "--ip6tables=false", *self.options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": _PATH},
                start_new_session=True,
            )
        ends_with_its_test(self._process)

        def ready() -> bool:
            assert self._process is not None and self._process.poll() is None, self._said()
            return self.try_docker("version").returncode == 0

        eventually(ready, "dockerd")

    def _said(self) -> str:
        return "dockerd ended: " + (self.directory / "log").read_text()[-2000:]

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def remove(self) -> None:
        for identifier in self.try_docker("ps", "-aq").stdout.decode().split():
            self.try_docker("rm", "-f", identifier)
        self.stop()
        # An engine with live-restore leaves its directory mounted on itself.
        data = str(self.directory / "data")
        subprocess.run(["umount", "-l", data], capture_output=True, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def try_docker(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["docker", "-H", f"unix://{self.socket}", *words],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env={"PATH": f"/usr/local/bin:{_PATH}", "HOME": str(self.directory)},
        )

    def docker(self, *words: str, stdin: bytes = b"") -> str:
        done = self.try_docker(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def inspect(self, container: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", container))
        return found[0]

    def settings(self) -> str:
        """What a hostd.toml says to use it."""
        return f'[docker]\nsocket = "{self.socket}"\n'

    def make_images(self) -> None:
        for name, tree, changes in each():
            options = [word for change in changes for word in ("--change", change)]
            self.docker("import", *options, "-", f"gitmoat-test:{name}", stdin=tree)


def image(name: str) -> str:
    return f"gitmoat-test:{name}"
