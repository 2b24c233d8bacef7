"""The demo's git server as a process of its own; live tests use it too.

    upstream = Upstream(directory, password="...")
    upstream.start()
    upstream.url, upstream.ca_file, upstream.log()
    upstream.stop()

Repositories are bare ones below `directory/repositories`. The password goes in by a pipe, never
by argv or environment; the access log says only whether an Authorization header was there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from attrs import frozen

_START_SECONDS = 20.0


@frozen
class LoggedRequest:
    request: str
    status: int
    authorization: bool


class Upstream:
    """Starts and stops `python -m hostctl.demo_upstream`."""

    def __init__(
        self, directory: Path, password: str, user: str = "x-access-token", stay: bool = False
    ) -> None:
        self.directory = directory
        self.repositories = directory / "repositories"
        self.ca_file = directory / "tls" / "ca.pem"
        self.user = user
        self._password = password
        self._stay = stay  # outlive the process that started it
        self._process: subprocess.Popen[bytes] | None = None

    def secret(self) -> str:
        """For those who measure or test the way without us."""
        return self._password

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
        from hostctl.daemons import clean_environment

        self.repositories.mkdir(mode=0o755, parents=True, exist_ok=True)
        port_file = self.directory / "port"
        command = [sys.executable, "-P", "-m", "hostctl.demo_upstream"]
        command += ["--directory", str(self.directory), "--port-file", str(port_file)]
        command += ["--user", self.user, *(["--stay"] if self._stay else [])]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=clean_environment(),
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101 -- PIPE above
        self._process.stdin.write(self._password.encode() + b"\n")
        self._process.stdin.flush()
        self._wait_for(port_file)

    def log(self) -> list[LoggedRequest]:
        """What reached this server so far."""
        try:
            text = (self.directory / "access.ndjson").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [LoggedRequest(**json.loads(line)) for line in text.splitlines()]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._process = None

    def __enter__(self) -> Upstream:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait_for(self, port_file: Path) -> None:
        assert self._process is not None  # noqa: S101 -- called by start
        deadline = time.monotonic() + _START_SECONDS
        while not port_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("the demo's git server did not start")
            time.sleep(0.02)


def main() -> int:
    from hostctl.demo_authority import make_certificates
    from hostctl.demo_httpd import GitServer, Settings, basic

    args = _arguments()
    password = sys.stdin.buffer.readline().removesuffix(b"\n").decode()
    git = shutil.which("git")
    if git is None or not password:
        print("demo_upstream: needs git, and a password on stdin", file=sys.stderr)
        return 1
    tls = args.directory / "tls"
    if not tls.exists():
        tls.mkdir(mode=0o755)
        make_certificates(tls)
    settings = Settings(
        repositories=args.directory / "repositories",
        certificate=tls / "cert.pem",
        key=tls / "key.pem",
        log=args.directory / "access.ndjson",
        git=git,
        authorization=basic(args.user, password),
    )
    server = GitServer(settings)
    _announce(args.port_file, server.port)
    if not args.stay:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    server.serve_forever()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hostctl.demo_upstream", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="repositories, TLS, log")
    parser.add_argument("--port-file", type=Path, required=True, help="written when it listens")
    parser.add_argument("--user", default="x-access-token")
    parser.add_argument("--stay", action="store_true", help="do not end with stdin")
    return parser.parse_args()


def _announce(port_file: Path, port: int) -> None:
    passing = port_file.with_suffix(".new")
    passing.write_text(f"{port}\n", encoding="ascii")
    passing.rename(port_file)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
