"""What the demo runs on: a temporary root, a git server, broker and hostd; and their removal."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from gitmoat.paths import Paths
from hostctl.commands.up import start_missing
from hostctl.demo.git_server import Upstream
from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.setup.configfile import create_file
from hostctl.setup.daemons import Daemon, clean_environment, stop_daemon
from hostctl.setup.defaults import write_defaults

ALLOWED = "acme/app"
FORBIDDEN = "acme/secrets"
AGENT = "demo-agent"
SPLIT = "demo-split"
_PROGRAMS = {"git": "git", "bwrap": "bubblewrap", "nft": "nftables", "python3": "python3"}
_MEASURED = ("network", "egress", "dns", "metadata", "proxy", "ports", "credential", "sidecar")
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT = 180.0
PYTHON = 'exec python3 -I -c "$1"'


class CheckFailed(Exception):
    """A check did not find what it must; the text says what it found."""


@frozen
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    def expect_success(self, what: str) -> str:
        if self.code != 0:
            raise CheckFailed(f"{what} ended with {self.code}: {last_lines(self.text)}")
        return self.out.strip()

    def expect_failure(self, what: str) -> str:
        if self.code == 0:
            raise CheckFailed(f"{what} succeeded")
        return self.text


def last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "no output"


@define(eq=False)
class Stage:
    root: Path
    upstream: Upstream
    public: str  # the first half of the password: what the scans look for
    out: Output
    daemons: list[Daemon] = field(factory=list)
    head: str = ""
    reports: dict[str, Any] = field(factory=dict)  # of `hostctl verify`, by sandbox
    image: str = ""  # sandboxes are containers of this one

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    def url(self, repository: str) -> str:
        return f"{self.upstream.url}/{repository}.git"

    def hostctl(self, *words: str, stdin: str = "", timeout: float = _TIMEOUT) -> Ran:
        """Runs the real command line against this root."""
        command = [sys.executable, "-P", "-m", "hostctl", "--root", str(self.root), *words]
        try:
            done = subprocess.run(
                command,
                input=stdin.encode(),
                capture_output=True,
                env=clean_environment(),
                timeout=timeout,
                start_new_session=True,  # a Ctrl-C is ours to handle
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"`hostctl {words[0]}` took longer than {timeout:.0f} s") from None
        out, err = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
        return Ran(done.returncode, out, err)

    def start(self, sandbox: str, *words: str) -> None:
        """Starts a sandbox in the background."""
        image = ("--image", self.image) if self.image else ()
        started = self.hostctl("run", "-d", "--name", sandbox, *image, *words)
        started.expect_success("starting the sandbox")

    def shell(self, sandbox: str, script: str, *words: str) -> Ran:
        """Runs a script in a sandbox as the untrusted uid."""
        return self.hostctl("exec", sandbox, "--", "/bin/sh", "-ec", script, "demo", *words)

    def probe(
        self, sandbox: str, source: str, question: Mapping[str, object], tier: str = "untrusted"
    ) -> dict[str, Any]:
        """Runs one of demo_probes in a sandbox and returns what it found."""
        ran = self.hostctl(
            *("exec", "-i", "--as", tier, sandbox, "--", "/bin/sh", "-c", PYTHON, "demo", source),
            stdin=json.dumps(question),
        )
        answer = ran.expect_success(f"a probe as {tier}")
        try:
            found = json.loads(answer)
        except ValueError:
            raise CheckFailed(f"a probe answered {answer[:200]!r}") from None
        if not isinstance(found, dict):
            raise CheckFailed("a probe did not answer with an object")
        return found

    def upstream_ref(self, ref: str, repository: str = ALLOWED) -> str | None:
        return self.upstream.ref(repository, ref)

    def verified(self, sandbox: str, *groups: str) -> list[dict[str, Any]]:
        """The rows of these groups in what `hostctl verify` says of the sandbox, measured once."""
        if sandbox not in self.reports:
            words = ("verify", sandbox, "--json", "--only", ",".join(_MEASURED))
            self.reports[sandbox] = json.loads(self.hostctl(*words).out or "{}")
        rows = self.reports[sandbox].get("probes", [])
        return [row for row in rows if row["group"] in groups]

    def requests(self) -> list[str]:
        """The request lines that reached the git server so far."""
        return [line.split(" ", 2)[2] for line in self.upstream.log()]


def open_stage(out: Output, keep: bool, hostd: str = "") -> Stage:
    """Everything up to two configured daemons; closes itself again when that fails.

    `hostd` is added to hostd.toml.
    """
    check_programs()
    root = _make_root()
    public, secret = secrets.token_hex(8), secrets.token_hex(16)
    upstream = Upstream(root / "upstream", public + secret, stay=keep)
    stage = Stage(root, upstream, public, out)
    try:
        _set_up(stage, public + secret, hostd)
    except BaseException:
        close_stage(stage, keep_files=keep)
        raise
    return stage


def _set_up(stage: Stage, password: str, hostd: str) -> None:
    stage.out.progress("starting a git server that demands a password ...")
    stage.upstream.start()
    readme = b"A repository that the sandbox may use.\n"
    stage.head = stage.upstream.create_repository(ALLOWED, {"README.md": readme})
    hidden = b"A repository that the sandbox must not see.\n"
    stage.upstream.create_repository(FORBIDDEN, {"README.md": hidden})
    write_defaults(stage.paths, f"127.0.0.1:{_free_port()}")
    with stage.paths.hostd_toml.open("a", encoding="utf-8") as file:
        file.write(hostd)
    stage.daemons = start_missing(stage.paths, stage.out)
    user = ("--username", stage.upstream.user)
    added = stage.hostctl("cred", "add", "demo", "--stdin", *user, stdin=password + "\n")
    _must(added, "adding the credential failed")
    # Below etc/gitmoat the broker's uid can read it even when TMPDIR is closed to others.
    ca_file = stage.paths.etc / "demo-ca.pem"
    create_file(ca_file, stage.upstream.certificate.read_text(encoding="ascii"), 0o644)
    server = ("--url", stage.upstream.url, "--ca-file", str(ca_file))
    added = stage.hostctl("upstream", "add", "demo", *server, "--cred", "demo")
    _must(added, "adding the upstream failed")


def _must(ran: Ran, what: str) -> None:
    if ran.code != 0:
        raise Failure("C107", what, last_lines(ran.text), "`hostctl demo --keep` keeps the logs")


def close_stage(stage: Stage, keep_files: bool = False) -> None:
    """Stops what was started and removes what was written; goes on when a part of it fails."""
    paths = stage.paths
    for name, control in (("hostd", paths.hostd_socket), ("broker", paths.broker_admin_socket)):
        try:
            stop_daemon(name, control)
        except (Failure, OSError) as problem:
            why = problem.what if isinstance(problem, Failure) else problem
            stage.out.progress(f"stopping {name}: {why}")
    for daemon in reversed(stage.daemons):
        daemon.stop()
    stage.upstream.stop()
    if keep_files:
        stage.out.progress(f"kept the files in {stage.root}")
        return
    shutil.rmtree(stage.root, ignore_errors=True)
    if stage.root.exists():
        stage.out.progress(f"{stage.root} could not be removed completely")


def check_programs() -> None:
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=_SYSTEM_PATH) is None:
            fix = f"apt-get install {package}"
            raise Failure("R102", f"{program} is not installed", "the demo needs it", fix)


def _make_root() -> Path:
    """Short, because socket paths are limited to 100 bytes; passable, because uids change."""
    base = tempfile.gettempdir()
    if len(base) > 40:
        base = "/tmp"  # noqa: S108 -- mkdtemp makes it ours alone
    root = Path(tempfile.mkdtemp(prefix="gitmoat-", dir=base))
    os.chmod(root, 0o711)  # noqa: PTH101, S103 -- the broker's uid passes through
    return root


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
