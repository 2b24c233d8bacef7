"""Times, exit codes, the version."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from gitmoat.version import VERSION
from hostctl.run.pump import exit_code
from hostctl.terminal.moments import ago, span, until

CHECKOUT = Path(__file__).resolve().parents[3]


def test_the_version_is_the_packages() -> None:
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    assert setup["metadata"]["version"] == VERSION


@pytest.mark.parametrize(
    ("result", "code"),
    [({"exit": 0}, 0), ({"exit": 7}, 7), ({"exit": -9}, 137), ({}, 0), ({"exit": "x"}, 125)],
)
def test_exit_codes_are_as_a_shell_shows_them(result: dict[str, object], code: int) -> None:
    assert exit_code(result) == code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5s"), (65, "1m05s"), (3600, "1h00m"), (28799, "7h59m"), (90000, "1d1h")],
)
def test_spans(seconds: int, text: str) -> None:
    assert span(seconds) == text


def test_points_in_time() -> None:
    assert until(1060, now=1000) == "in 1m00s"
    assert until(999, now=1000) == "ended"
    assert until(None) == "-"
    assert ago(940, now=1000) == "1m00s ago"
    assert ago(None) == "-"
