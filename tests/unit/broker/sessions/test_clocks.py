"""The wall clock is believed only forwards."""

from pathlib import Path
from typing import Any

from broker.sessions.clocks import WallClock
from broker.sessions.store.sqlite import open_sqlite
from tests.fakes.at_once import AtOnce


def clock_of(path: Path, wall: list[float]) -> Any:
    store = open_sqlite(path)
    return AtOnce(WallClock(store, store.load().highest_wall, lambda: wall[0]))


def test_an_earlier_clock_is_found_out_also_after_a_restart(tmp_path: Path) -> None:
    wall = [1000.0]
    clock = clock_of(tmp_path / "s", wall)
    assert (clock.behind(), clock.now()) == (0, 1000)
    clock.keep()
    wall[0] = 2000.0
    clock.keep()
    wall[0] = 1950.0  # a correction, as disciplined clocks make them
    assert clock.behind() == 0
    wall[0] = 1900.0
    again = clock_of(tmp_path / "s", wall)
    assert (again.behind(), again.now()) == (100, 2000)
    again.keep()
    assert again.behind() == 100
    again.accept()
    assert (again.behind(), again.now()) == (0, 1900)
    assert clock_of(tmp_path / "s", wall).behind() == 0
