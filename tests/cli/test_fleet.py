"""On a broker's machine, where no hostd runs, the sessions of every host are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Hostctl
from tests.fakes.daemon import FakeDaemon, Message

SESSION = {"session": "s1", "sandbox": "0123456789ab", "name": "ci", "state": "active"}
ANSWERS: dict[str, Message] = {
    "session-ls": {"ok": True, "items": [SESSION]},
    "session-show": {"ok": True, **SESSION},
    "top": {"ok": True, "items": [SESSION]},
}


@pytest.fixture
def broker(root: Path) -> Iterator[FakeDaemon]:
    with FakeDaemon(root / "run/gitmoat/broker-admin.sock", ANSWERS) as daemon:
        yield daemon


def test_the_sessions_of_every_host_are_listed(broker: FakeDaemon, hostctl: Hostctl) -> None:
    listed = hostctl("ls", "--fleet", "--json")
    assert (listed.returncode, json.loads(listed.stdout)["items"]) == (0, [SESSION])
    assert hostctl("ls").returncode == 5


def test_a_session_is_shown(broker: FakeDaemon, hostctl: Hostctl) -> None:
    shown = hostctl("inspect", "--fleet", "ci", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["name"]) == (0, "ci")
    assert hostctl("inspect", "ci").returncode == 5


def test_what_each_does_now_is_shown(broker: FakeDaemon, hostctl: Hostctl) -> None:
    watched = hostctl("ls", "--watch", "--once")
    assert watched.returncode == 0
    assert "ci" in watched.stdout
