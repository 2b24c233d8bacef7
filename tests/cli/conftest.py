"""A throw-away root with a short path (socket paths are limited), and the real command line."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Hostctl, environment
from tests.stage.command import command
from tests.waiting import PATIENCE


@pytest.fixture
def root() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


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
