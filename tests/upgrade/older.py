"""The last release, built from the repository's history and running on a root of its own."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from tests.releases import Release, git
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, create_repository
from tests.stage.upstream import Upstream

PATIENCE = 300.0  # of every wait: a busy machine takes long, and fails nothing
_CONFIGURE = """
import sys
from hostctl.defaults import write_defaults
from identity.paths import Paths
write_defaults(Paths(sys.argv[1]), sys.argv[2])
"""


@frozen
class Code:
    """An installation that is not this environment's own; its name is not site-packages, so that
    hostctl starts daemons from where it is itself."""

    directory: Path

    def python(self, *words: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            [sys.executable, "-P", *words],
            input=stdin.encode(),
            capture_output=True,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(self.directory),
            },
            cwd="/",
            timeout=PATIENCE,
            start_new_session=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def hostctl(self, stage: Gitmoat, *words: str, stdin: str = "") -> str:
        ran = self.python("-m", "hostctl", "--root", str(stage.root), *words, stdin=stdin)
        return ran.expect_success(f"hostctl {words[0]}")


@contextmanager
def directory(prefix: str) -> Iterator[Path]:
    """Passable for other uids, and short, as socket paths must be."""
    made = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def installed(release: Release) -> Iterator[Code]:
    """As a user has it: the wheel of that commit. Nothing is fetched."""
    with directory("gm-old-") as place:
        tree, code = place / "tree", place / "code"
        tree.mkdir()
        archive = git("archive", release.commit).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        offline = ["--no-index", "--no-deps"]
        built = ["wheel", *offline, "--no-build-isolation", "-w", str(place / "dist"), str(tree)]
        subprocess.run([*pip, *built], check=True, cwd="/", timeout=PATIENCE)
        (wheel,) = (place / "dist").glob("*.whl")
        install = ["install", *offline, "--target", str(code), str(wheel)]
        subprocess.run([*pip, *install], check=True, cwd="/", timeout=PATIENCE)
        yield Code(code)


@contextmanager
def running(code: Code) -> Iterator[Gitmoat]:
    """A git server, and that version's broker and hostd, which know it."""
    with directory("gm-up-") as root:
        password = secrets.token_hex(24)
        upstream = Upstream(root / "upstream", password)
        stage = Gitmoat(root, upstream, password)
        try:
            upstream.start()
            stage.head = create_repository(upstream.repositories, ALLOWED, {"a.txt": b"one\n"})
            address = f"127.0.0.1:{_free_port()}"
            code.python("-c", _CONFIGURE, str(root), address).expect_success("configuring it")
            code.hostctl(stage, "up")
            user = ("--stdin", "--username", upstream.user)
            code.hostctl(stage, "cred", "add", "demo", *user, stdin=password + "\n")
            ca_file = stage.paths.etc / "demo-ca.pem"
            shutil.copyfile(upstream.ca_file, ca_file)
            ca_file.chmod(0o644)
            server = ("--url", upstream.url, "--ca-file", str(ca_file), "--cred", "demo")
            code.hostctl(stage, "upstream", "add", "demo", *server)
            yield stage
        finally:
            code.python("-m", "hostctl", "--root", str(root), "down")
            upstream.stop()


def stop(pid: int) -> None:
    """As a service manager does: a signal, and its own time to end."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        assert select.select([process], [], [], PATIENCE)[0], f"{pid} does not end"
    finally:
        os.close(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
