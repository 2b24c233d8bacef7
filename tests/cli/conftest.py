"""A throw-away root with a short path (socket paths are limited), and the real command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
Hostctl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def root() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def command(root: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "hostctl", "--root", str(root), *words]


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(CHECKOUT)}


@pytest.fixture
def hostctl(root: Path) -> Hostctl:
    """Runs hostctl against `root`; stdin is empty unless given."""

    def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(root, *words),
            input=stdin,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=PATIENCE,
        )

    return run
