"""On a broker's machine, where no hostd runs, the sessions of every host are shown."""

from __future__ import annotations

import json
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Hostctl
from tests.cli.terminal import Terminal
from tests.fakes.daemon import FakeDaemon, Message
from tests.stage.command import run_hostctl

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


def test_the_age_is_the_sandboxs_and_not_its_sessions(root: Path) -> None:
    sessions = [
        {"session": "s", "sandbox": "aaa", "began": 900},
        {"session": "t", "sandbox": "zzz", "began": 800},
    ]
    sandboxes = [{"sandbox": "aaa", "created": 100}, {"sandbox": "bbb", "created": 200}]
    run = root / "run/gitmoat"
    with (
        FakeDaemon(run / "broker-admin.sock", {"top": {"ok": True, "items": sessions}}),
        FakeDaemon(run / "hostd.sock", {"ls": {"ok": True, "items": sandboxes}}),
    ):
        done = run_hostctl(root, "--json", "ls", "--watch", "--once")
    began = {each["sandbox"]: each["began"] for each in json.loads(done.out)["items"]}
    assert began == {"aaa": 100, "zzz": 800, "bbb": 200}


@pytest.mark.parametrize(
    "end, code", [(b"q", 0), (b"xyzq", 0), (b"\x03", 130)], ids=["q", "other keys", "Ctrl-C"]
)
def test_a_key_ends_it_and_the_terminal_is_as_before(
    broker: FakeDaemon, root: Path, end: bytes, code: int
) -> None:
    terminal = Terminal(root, "ls", "--watch", "--interval", "1h")
    terminal.read_until(b"active")
    terminal.type(end)
    said = terminal.rest()
    after = termios.tcgetattr(terminal.master)
    terminal.close()
    assert (terminal.process.returncode, after[3]) == (code, terminal.before[3])
    assert b"xyz" not in said
