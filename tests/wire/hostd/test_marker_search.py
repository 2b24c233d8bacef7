"""The search for what only the host may have, where there is something to be found."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.verify.attempts.file_system import ATTEMPTS
from hostd.verify.attempts.refused import Refused
from tests.waiting import ends_with_its_test

search = ATTEMPTS["marker"]


@pytest.fixture
def marker() -> str:
    return f"gitmoat-marker-{secrets.token_hex(16)}"


@pytest.fixture
def process(marker: str, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """One that has the marker in its environment or among its arguments."""
    words = ["sleep", "600"] if request.param == "environ" else ["sh", "-c", "sleep 600", marker]
    environment = {"PATH": os.environ["PATH"], "SECRET": marker}
    started = subprocess.Popen(words, env=environment if request.param == "environ" else None)
    ends_with_its_test(started)
    yield started
    started.kill()
    started.wait()


@pytest.mark.parametrize("process", ["environ", "cmdline"], indirect=True)
def test_a_process_that_has_it_is_found(
    process: subprocess.Popen[bytes], marker: str, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["process"]
    assert search(marker) == f"found in /proc/{process.pid}/{kind}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system as small as a sandbox's."""
    for name in ("tmp", "proc", "home/user/.config"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def searched(root: Path, marker: str) -> str:
    """What the search says in there."""
    near, far = os.pipe()
    child = os.fork()
    if not child:
        os.chroot(root)
        try:
            said = search(marker)
        except Refused as refused:
            said = f"refused: {refused}"
        os.write(far, said.encode())
        os._exit(0)
    os.close(far)
    os.waitpid(child, 0)
    with open(near, "rb") as answer:
        return answer.read().decode()


def test_a_file_that_has_it_is_found(root: Path, marker: str) -> None:
    (root / "home/user/.config/token").write_text(f"password = {marker}\n")
    assert searched(root, marker) == "found in /home/user/.config/token"


def test_without_it_nothing_is_found(root: Path, marker: str) -> None:
    (root / "home/user/.config/token").write_text("password = other\n")
    assert searched(root, marker) == "refused: in none of 2 files"


def test_a_search_that_cannot_see_is_none(root: Path, marker: str) -> None:
    """Too many files in front of the one that it put there itself."""
    for number in range(20_001):
        os.mknod(root / str(number))
    assert searched(root, marker) == "the search does not even find its own canary"
