"""The git server of a test as a process, and what reached it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from attrs import frozen

from hostctl.setup.daemons import clean_environment
from tests.waiting import end, eventually


@frozen
class LoggedRequest:
    request: str
    status: int
    authorization: bool


class Upstream:
    """Starts and stops `python -m tests.stage.git_server`."""

    def __init__(self, directory: Path, password: str, user: str = "x-access-token") -> None:
        self.directory = directory
        self.repositories = directory / "repositories"
        self.ca_file = directory / "tls" / "ca.pem"
        self.user = user
        self.password = password
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def port(self) -> int:
        return int((self.directory / "port").read_text(encoding="ascii"))

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        self.repositories.mkdir(mode=0o755, parents=True, exist_ok=True)
        (self.directory / "port").unlink(missing_ok=True)
        # The password goes in by a pipe: a test looks for it in every process's words.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.stage.git_server", str(self.directory), self.user],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=clean_environment(),
            cwd="/",
            start_new_session=True,
        )
        self._process = process
        assert process.stdin is not None
        process.stdin.write(self.password.encode() + b"\n")
        process.stdin.flush()

        def listening() -> bool:
            assert process.poll() is None, "the git server ended"
            return (self.directory / "port").exists()

        eventually(listening, "a git server that listens")

    def log(self) -> list[LoggedRequest]:
        """What reached this server so far."""
        try:
            text = (self.directory / "access.ndjson").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [LoggedRequest(**json.loads(line)) for line in text.splitlines()]

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None
