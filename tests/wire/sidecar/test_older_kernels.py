"""Where the kernel says less of a peer, hostd says so and the sidecar asks for less."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitmoat.identity.peer import Means
from tests.fakes.sidecar_requests import APP
from tests.fakes.sidecar_world import World
from tests.fakes.whole_sidecar import stop


@pytest.mark.parametrize("means", list(Means))
def test_hostd_and_the_helper_are_known_and_nobody_else_is(means: Means, tmp_path: Path) -> None:
    world = World(tmp_path, peer=means)
    world.start()
    assert world.token(APP)
    stop(world)
    (tmp_path / "other").mkdir()
    world = World(tmp_path / "other", helper_uid=61002, peer=means)
    world.start()
    assert world.credential(APP) == b""
    stop(world)
