"""The process that forks for hostd, asked for what cannot be."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen


@frozen
class Launcher:
    link: socket.socket
    pid: int

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.link.send(json.dumps({"id": 1, **request}).encode())
        answer: dict[str, Any] = json.loads(self.link.recv(65536))
        return answer

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", "-m", "hostd.launcher", str(far.fileno())]
    with near, far, subprocess.Popen(command, pass_fds=[far.fileno()]) as process:
        far.close()
        yield Launcher(near, process.pid)
        near.close()


def test_what_fails_before_the_fork_leaves_nothing_open(launcher: Launcher, tmp_path: Path) -> None:
    gone = {"op": "execute", "cgroups": [str(tmp_path / "gone")], "keep": 0, "uid": 0}
    first = launcher.ask(gone)
    assert "No such file" in first["error"]
    before = launcher.descriptors()
    for _ in range(5):
        assert launcher.ask(gone) == first
    assert launcher.descriptors() == before


def test_what_a_child_cannot_do_is_told_whole(launcher: Launcher) -> None:
    nowhere = "/" + "x" * 200
    request = {"op": "execute", "cgroups": [], "keep": 0, "uid": 0, "cwd": nowhere}
    assert launcher.ask(request)["error"].endswith(f"No such file or directory: '{nowhere}'")
