"""A sandbox of a test, and clones in it, driven through the real command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED
from tests.waiting import PATIENCE

HOME = "/home/sandbox"


MakeBox = Callable[..., "Box"]


@frozen
class Box:
    """A sandbox by name."""

    stage: Gitmoat
    name: str

    def inspect(self) -> dict[str, Any]:
        ran = self.stage.hostctl("--json", "inspect", self.name, timeout=PATIENCE)
        found: dict[str, Any] = json.loads(ran.expect_success("inspect"))
        return found

    @property
    def sidecar(self) -> int:
        pid = self.inspect()["sidecar"]["pid"]
        assert isinstance(pid, int), "there is no sidecar"
        return pid

    def run(self, *argv: str, timeout: float = PATIENCE) -> Ran:
        """A command as the untrusted uid."""
        return self.stage.hostctl("exec", self.name, "--", *argv, timeout=timeout)

    def sh(self, script: str, *words: str, as_helper: bool = False) -> Ran:
        tier = "helper" if as_helper else "untrusted"
        command = ("/bin/sh", "-c", script, "test", *words)
        return self.stage.hostctl("exec", "--as", tier, self.name, "--", *command, timeout=PATIENCE)

    def python(self, source: str, question: object = None, as_helper: bool = False) -> Any:
        """Runs a probe in the sandbox; it reads JSON and prints JSON."""
        tier = "helper" if as_helper else "untrusted"
        words = ("exec", "-i", "--as", tier, self.name, "--", "/usr/bin/python3", "-I", "-c")
        ran = self.stage.hostctl(*words, source, stdin=json.dumps(question), timeout=PATIENCE)
        return json.loads(ran.expect_success("a probe"))

    def begin(self, *argv: str) -> subprocess.Popen[bytes]:
        """A command as the untrusted uid, in the background."""
        return self.stage.begin("exec", self.name, "--", *argv)

    def git(self, *words: str) -> Ran:
        """The git gate."""
        return self.stage.hostctl("git", self.name, "--", *words, timeout=PATIENCE)

    def path(self, inside: str) -> Path:
        """Where the host finds a file of the sandbox."""
        return Path(f"/proc/{self.inspect()['pid']}/root", inside.lstrip("/"))

    def clone(self, repository: str, *options: str) -> Clone:
        directory = f"{HOME}/{uuid.uuid4().hex[:10]}"
        url = self.stage.url(repository)
        self.run("git", "clone", "-q", *options, url, directory).expect_success("git clone")
        return Clone(self, directory)

    def remove(self) -> None:
        self.stage.hostctl("rm", "--force", self.name, timeout=PATIENCE)


@frozen
class Clone:
    """A repository in a sandbox that the command made by itself."""

    box: Box
    directory: str

    def git(self, *words: str, timeout: float = PATIENCE) -> Ran:
        return self.box.run("git", "-C", self.directory, *words, timeout=timeout)

    def ask(self, *words: str) -> str:
        return self.git(*words).expect_success(f"git {words[0]}")

    def commit(self, branch: str, kib: int = 0) -> str:
        """One commit more on a branch that starts at origin's main; with a file that no
        compression makes smaller."""
        script = (
            'cd "$1" && git checkout -q "$2" 2>/dev/null || git checkout -q -b "$2" || exit 1\n'
            'head -c $((1 + $3 * 1024)) /dev/urandom > "file-$4" && git add "file-$4"\n'
            'git commit -q -m "Work $4" && git rev-parse HEAD'
        )
        ran = self.box.sh(script, self.directory, branch, str(kib), uuid.uuid4().hex[:8])
        return ran.expect_success("git commit")


def start_box(stage: Gitmoat, *words: str, repo: str | None = ALLOWED) -> Box:
    name = f"t-{uuid.uuid4().hex[:10]}"
    scope = ["--repo", stage.url(repo)] if repo else []
    ran = stage.hostctl(
        "run", "-d", "--name", name, *scope, *words, "--", "sleep", "infinity", timeout=PATIENCE
    )
    ran.expect_success("hostctl run")
    return Box(stage, name)


@contextmanager
def box_maker(stage: Gitmoat) -> Iterator[MakeBox]:
    boxes: list[Box] = []

    def make(*words: str, repo: str | None = ALLOWED, on: Gitmoat | None = None) -> Box:
        boxes.append(start_box(on or stage, *words, repo=repo))
        return boxes[-1]

    try:
        yield make
    finally:
        for box in boxes:
            box.remove()


def told(ran: Ran, stage: Gitmoat) -> list[str]:
    """What git printed on stderr, with the parts that differ from run to run named."""
    text = re.sub(r"request id: [0-9a-f]{16}\b", "request id: ID", ran.err)
    text = text.replace(f"localhost:{stage.upstream.port}", "HOST")
    return [line.rstrip() for line in text.splitlines()]


def request_id(ran: Ran) -> str:
    found = re.search(r"request id: ([0-9a-f]{16})\b", ran.err)
    assert found is not None, ran.err
    return found[1]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
