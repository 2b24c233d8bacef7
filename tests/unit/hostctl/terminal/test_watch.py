"""The table of `hostctl ls --watch`."""

from __future__ import annotations

import io

import pytest

from hostctl.output import Output
from hostctl.terminal.watch import _rates, _show, octets

BEFORE = {"items": [{"session": "s", "requests": 10, "bytes": 0}]}
NOW = {
    "items": [
        {"session": "s", "sandbox": "aaa", "name": "demo", "state": "active", "streams": 2,
         "requests": 20, "bytes": 10240, "denied": 55, "slowed": True, "began": 0, "expires": 0},
        {"sandbox": "bbb", "name": "other", "state": "stopped", "began": 0},
    ],
    "operations": {"running": 2, "waiting": 1},
    "upstreams": {"up": "resting", "ok": "ok"},
}  # fmt: skip


def test_rates_are_between_two_looks() -> None:
    assert _rates(BEFORE, NOW, 10.0)["s"] == (60.0, 1024.0)
    assert _rates(NOW, NOW, 10.0)["s"] == (0.0, 0.0)


def test_the_table_shows_who_is_busy_and_who_is_slowed_down() -> None:
    text = io.StringIO()
    _show(NOW, _rates(BEFORE, NOW, 10.0), Output(stdout=text), live=False)
    head, columns, first, second = text.getvalue().splitlines()
    assert "2 operations, 1 waiting" in head and "up resting" in head
    assert columns.split()[:3] == ["SANDBOX", "NAME", "STATE"]
    assert first.split()[:7] == ["aaa", "demo", "active", "2", "60", "1.0KiB/s", "10KiB"]
    assert first.endswith("slowed down")
    assert second.split()[:3] == ["bbb", "other", "stopped"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0KiB"), (10 << 20, "10MiB"), (3 << 50, "3072TiB")],
)
def test_sizes_are_short(number: int, shown: str) -> None:
    assert octets(number) == shown
