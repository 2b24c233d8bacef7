"""A whole Gitmoat: a root of its own, a git server that wants a password, broker and hostd."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define, field

from gitmoat.paths import Paths
from hostctl.commands.up import start_missing
from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.setup.configfile import create_file
from hostctl.setup.daemons import Daemon, stop_daemon
from tests.stage.command import Ran, begin_hostctl, run_hostctl
from tests.stage.instance import make_instance
from tests.stage.repositories import ALLOWED, FORBIDDEN, create_repository, refs
from tests.stage.upstream import Upstream
from tests.waiting import PATIENCE


@define(eq=False)
class Gitmoat:
    root: Path
    upstream: Upstream
    public: str  # the first half of the password: what is looked for where it must not be
    daemons: list[Daemon] = field(factory=list)
    head: str = ""  # of the repository that sandboxes may use

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    def url(self, repository: str) -> str:
        return f"{self.upstream.url}/{repository}.git"

    def hostctl(self, *words: str, stdin: str = "", timeout: float = PATIENCE) -> Ran:
        return run_hostctl(self.root, *words, stdin=stdin, timeout=timeout)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return begin_hostctl(self.root, *words)

    def upstream_ref(self, ref: str, repository: str = ALLOWED) -> str | None:
        """The object that a ref of the git server's points to, if there is such a ref."""
        return refs(self, repository).get(ref)

    def requests(self) -> list[str]:
        """The request lines that reached the git server so far."""
        return [entry.request for entry in self.upstream.log()]

    def start(self) -> None:
        """Daemons that are children of this process, and that know the git server as `demo`."""
        self.daemons = start_missing(self.paths, Output(quiet=True))
        added = self.hostctl(
            *("cred", "add", "demo", "--stdin", "--username", self.upstream.user),
            stdin=self.upstream.password + "\n",
        )
        added.expect_success("adding the credential")
        # Below etc/gitmoat the broker's uid can read it even when TMPDIR is closed to others.
        ca_file = self.paths.etc / "demo-ca.pem"
        create_file(ca_file, self.upstream.ca_file.read_text(encoding="ascii"), 0o644)
        server = ("--url", self.upstream.url, "--ca-file", str(ca_file), "--cred", "demo")
        self.hostctl("upstream", "add", "demo", *server).expect_success("adding the upstream")

    def close(self) -> None:
        """Takes away everything that was started or written, also where a part of it is broken."""
        for name in ("hostd", "broker"):
            paths = self.paths
            control = paths.hostd_socket if name == "hostd" else paths.broker_admin_socket
            with suppress(Failure, OSError):
                stop_daemon(name, control)
        for daemon in reversed(self.daemons):
            daemon.stop()
        self.upstream.stop()
        shutil.rmtree(self.root, ignore_errors=True)


@contextmanager
def opened(hostd: str = "") -> Iterator[Gitmoat]:
    """Running, with two repositories. `hostd` is added to hostd.toml."""
    root = make_instance().root
    public, secret = secrets.token_hex(8), secrets.token_hex(16)
    made = Gitmoat(root, Upstream(root / "upstream", public + secret), public)
    try:
        made.upstream.start()
        repositories = made.upstream.repositories
        readme = {"README.md": b"A repository that the sandbox may use.\n"}
        made.head = create_repository(repositories, ALLOWED, readme)
        hidden = {"README.md": b"A repository that the sandbox must not see.\n"}
        create_repository(repositories, FORBIDDEN, hidden)
        with made.paths.hostd_toml.open("a", encoding="utf-8") as file:
            file.write(hostd)
        made.start()
        yield made
    finally:
        made.close()
