from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.sidecar_world import World


def descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A sidecar that is stopped afterwards and must leave no descriptor behind."""
    before = descriptors()
    made = World(tmp_path)
    yield made
    made.service.stop()
    made.loop.pass_time(60, step=5)
    assert made.stopped
    made.broker.kill()
    made.broker.close()
    made.loop.settle()
    for transport in made.loop.transports:
        transport.abortConnection()
    made.loop.settle()
    for reader in list(made.loop.readers | made.loop.writers):
        reader.close()
    assert descriptors() <= before
