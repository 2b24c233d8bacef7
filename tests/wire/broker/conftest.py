"""A broker with one fake upstream behind it, for each test anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.broker_scene import Scene, opened, scene
from tests.fakes.broker_world import TIMEOUTS

__all__ = ["hasty", "impatient", "scene"]


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Scene]:
    """A broker without patience: each of its times passes while a test waits."""
    yield from opened(tmp_path, 'connect = "1s"\nhead = "1s"\nidle = "1s"\noperation = "3s"\n')


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Scene]:
    """A broker that waits a second for what is under way when it is told to end."""
    yield from opened(tmp_path, TIMEOUTS + 'drain = "1s"\n')
