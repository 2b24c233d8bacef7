"""A sidecar for one test; what it opened must be closed when it has stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.sidecar_world import World


def sockets() -> set[str]:
    """Open sockets; pytest's own reactor opens pipes when it likes."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the listing's own
            pass
    return {link for link in found if link.startswith("socket:")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with whole_world(tmp_path) as made:
        yield made


@contextmanager
def whole_world(folder: Path, **changes: Any) -> Iterator[World]:
    """A sidecar that is stopped afterwards and must leave no descriptor behind."""
    before = sockets()
    made = World(folder, **changes)
    yield made
    made.service.stop()
    made.loop.pass_time(60, step=5)
    assert made.has_stopped()
    made.broker.kill()
    made.broker.close()
    made.loop.settle()
    for transport in made.loop.transports:
        transport.abortConnection()
    made.loop.settle()
    for reader in list(made.loop.readers | made.loop.writers):
        reader.close()
    assert sockets() <= before


def stop(world: World) -> None:
    world.service.stop()
    world.loop.pass_time(1)
    assert world.has_stopped()
    world.broker.kill()
    world.broker.close()
    world.loop.settle()
