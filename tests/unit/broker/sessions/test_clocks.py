"""The wall clock is believed only forwards."""

from pathlib import Path

from broker.sessions.clocks import WallClock
from broker.sessions.store.sqlite import open_sqlite


def test_an_earlier_clock_is_found_out_also_after_a_restart(tmp_path: Path) -> None:
    wall = [1000.0]
    clock = WallClock(open_sqlite(tmp_path / "s"), lambda: wall[0])
    assert (clock.behind(), clock.now()) == (0, 1000)
    clock.keep()
    wall[0] = 2000.0
    clock.keep()
    wall[0] = 1950.0  # a correction, as disciplined clocks make them
    assert clock.behind() == 0
    wall[0] = 1900.0
    again = WallClock(open_sqlite(tmp_path / "s"), lambda: wall[0])
    assert (again.behind(), again.now()) == (100, 2000)
    again.keep()
    assert again.behind() == 100
    again.accept()
    assert (again.behind(), again.now()) == (0, 1900)
    assert WallClock(open_sqlite(tmp_path / "s"), lambda: wall[0]).behind() == 0
