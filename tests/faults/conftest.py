"""One Gitmoat whose daemons are killed and started again; its watchdog looks every second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.world import Machine, watched
from tests.stage.gitmoat import opened


@pytest.fixture(scope="session")
def world() -> Iterator[Machine]:
    """Shared by all: each test leaves it running and empty."""
    with opened() as stage, watched(stage) as world:
        with world.box():  # what is made once for all, and stays, is there before any inventory
            pass
        yield world


@pytest.fixture(autouse=True)
def _as_it_was(world: Machine) -> Iterator[None]:
    """What a failed test left, dead or alive, is no reason for the next one to fail."""
    world.up()
    before = set(world.items())
    yield
    world.up()
    for name in set(world.items()) - before:
        world.ask("rm", sandbox=name, force=True)


@pytest.fixture
def fresh_world() -> Iterator[Machine]:
    with opened() as stage, watched(stage) as world:
        yield world
