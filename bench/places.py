"""The two ways to the same git server: directly with the password, and through a sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from bench.flooding import FLOOD
from hostctl.demo_repositories import create_repository
from hostctl.demo_stage import ALLOWED, Stage, close_stage, open_stage
from hostctl.output import Output

LARGE = "acme/large"
_BOX = "bench"
_GATED = "bench-gate"
_MIB = 1 << 20


@define
class Direct:
    """git on the host, with the password in a file of its own."""

    stage: Stage
    home: Path

    def ls_remote(self) -> None:
        self._sh(f"git ls-remote {self.stage.url(ALLOWED)} >/dev/null")

    def clone_small(self) -> None:
        self._clone(ALLOWED)

    def clone_large(self) -> None:
        self._clone(LARGE)

    def push_large(self) -> None:
        self._sh(_push_script(self.stage.url(ALLOWED)))

    def _clone(self, repository: str) -> None:
        self._sh(_clone_script(self.stage.url(repository), str(self.home)))

    def _sh(self, script: str) -> None:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(["/bin/sh", "-ec", script], check=True, env=environment)


@define
class Through:
    """The same git, as the untrusted uid of a sandbox in agent mode."""

    stage: Stage
    _flood: subprocess.Popen[bytes] | None = None

    def ls_remote(self) -> None:
        self._sh(f"git ls-remote {self.stage.url(ALLOWED)} >/dev/null")

    def clone_small(self) -> None:
        self._clone(ALLOWED)

    def clone_large(self) -> None:
        self._clone(LARGE)

    def push_large(self) -> None:
        self._sh(_push_script(self.stage.url(ALLOWED)))

    def gate(self) -> None:
        """The owner's ls-remote for a sandbox whose command has no git."""
        self.stage.hostctl("git", _GATED, "--", "ls-remote", "origin").expect_success("the gate")

    def begin_flood(self) -> None:
        command = ["/usr/bin/python3", "-I", "-c", FLOOD, "500", "100000"]
        root = str(self.stage.root)
        self._flood = subprocess.Popen(
            [sys.executable, "-P", "-m", "hostctl", "--root", root, "exec", _GATED, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._flood.stdout is not None
        self._flood.stdout.readline()

    def end_flood(self) -> None:
        assert self._flood is not None
        script = "kill $(cat flood.pid); rm flood.pid"
        self.stage.hostctl("exec", _GATED, "--", "/bin/sh", "-c", script)
        self._flood.communicate()

    def memory(self) -> dict[str, int]:
        inspected = json.loads(self.stage.hostctl("--json", "inspect", _BOX).out)
        status = json.loads(self.stage.hostctl("--json", "status").out)
        return {
            "sidecar PSS": _kilobytes(inspected["sidecar"]["pid"], "smaps_rollup", "Pss:"),
            "sidecar VmHWM": _kilobytes(inspected["sidecar"]["pid"], "status", "VmHWM:"),
            "broker VmHWM": _kilobytes(status["broker"]["pid"], "status", "VmHWM:"),
        }

    def _clone(self, repository: str) -> None:
        self._sh(_clone_script(self.stage.url(repository), "/tmp"))

    def _sh(self, script: str) -> None:
        ran = self.stage.hostctl("exec", _BOX, "--", "/bin/sh", "-ec", script, timeout=600)
        ran.expect_success("a measured command")


def _clone_script(url: str, place: str) -> str:
    return f"d={place}/{uuid.uuid4().hex}; git clone --quiet --bare {url} $d && rm -rf $d"


def _push_script(url: str) -> str:
    branch = f"agent/{uuid.uuid4().hex}"
    return (
        f"cd $HOME; test -d push || git clone --quiet {url} push; cd push;"
        f"git checkout --quiet -B {branch}; head -c {64 * _MIB} /dev/urandom > blob;"
        "git add blob; git -c user.name=b -c user.email=b@b commit --quiet -m x;"
        f"git push --quiet origin {branch}"
    )


def _let_in(stage: Stage, home: Path) -> None:
    """The password goes to git by a file, as a person without us would have it."""
    user, password = stage.upstream.user, stage.upstream.secret()
    url = stage.upstream.url.removeprefix("https://")
    (home / ".git-credentials").write_text(f"https://{user}:{password}@{url}\n", "ascii")
    (home / ".git-credentials").chmod(0o600)
    (home / ".gitconfig").write_text(
        f"[credential]\n\thelper = store\n[http]\n\tsslCAInfo = {stage.upstream.ca_file}\n",
        "ascii",
    )


def _kilobytes(pid: int, file: str, key: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


@contextmanager
def open_places() -> Iterator[tuple[Direct, Through]]:
    stage = open_stage(Output(quiet=True), keep=False)
    try:
        home = stage.root / "direct"
        home.mkdir(mode=0o700)
        _let_in(stage, home)
        create_repository(stage.upstream.repositories, LARGE, {"data": os.urandom(200 * _MIB)})
        repositories = ["--repo", stage.url(ALLOWED), "--repo", stage.url(LARGE)]
        stage.hostctl(
            "run", "-d", "--name", _BOX, "--agent", *repositories, "--push", "agent/**",
            "--", "sleep", "infinity", timeout=300,
        ).expect_success("starting the sandbox")  # fmt: skip
        stage.hostctl(
            "run", "-d", "--name", _GATED, "--repo", stage.url(ALLOWED), "--", "sleep", "infinity",
            timeout=300,
        ).expect_success("starting the other sandbox")  # fmt: skip
        yield Direct(stage, home), Through(stage)
    finally:
        close_stage(stage)
