"""Who waits is told what for: after two seconds, on a terminal, and nowhere else."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Hostctl
from tests.cli.terminal import Terminal
from tests.fakes.daemon import Call, FakeDaemon, Message
from tests.waiting import PATIENCE

LINE = b"\r\x1b[K"


class Slow:
    """A hostd that answers when it is let."""

    def __init__(self) -> None:
        self.may = threading.Event()

    def stop(self, call: Call) -> Iterator[Message]:
        assert self.may.wait(PATIENCE)
        yield {"ok": True}

    def run(self, call: Call) -> Iterator[Message]:
        yield {"progress": "cloning https://git.example.com/acme/app.git"}
        assert self.may.wait(PATIENCE)
        yield {"event": "started", "sandbox": "3f9a0c21b7de", "name": "ci"}
        yield {"ok": True, "exit": 0}


@pytest.fixture
def slow(root: Path) -> Iterator[Slow]:
    made = Slow()
    operations = {"stop": made.stop, "run": made.run}
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", operations):
        yield made
        made.may.set()


def seconds(terminal: Terminal) -> int:
    """What it shows next; a machine that is busy leaves some of them out."""
    shown = terminal.read_until(b" s)").removesuffix(b" s)")
    return int(shown.rpartition(b"(")[2])


def test_the_seconds_are_counted_and_the_line_is_taken_back(slow: Slow, root: Path) -> None:
    terminal = Terminal(root, "stop", "ci")
    terminal.read_until(LINE + b"waiting for hostd (")
    first = seconds(terminal)
    terminal.read_until(LINE + b"waiting for hostd (")
    assert 2 <= first < seconds(terminal)
    slow.may.set()
    assert terminal.rest() == LINE + b"ci\r\n"
    terminal.close()


def test_a_long_clone_says_that_it_is_one(slow: Slow, root: Path) -> None:
    terminal = Terminal(root, "run", "--", "true")
    terminal.read_until(b"cloning https://git.example.com/acme/app.git\r\n")
    terminal.read_until(LINE + b"cloning https://git.example.com/acme/app.git (")
    assert seconds(terminal) >= 2
    slow.may.set()
    assert terminal.rest() == LINE
    terminal.close()


def test_ctrl_c_leaves_a_clean_line(slow: Slow, root: Path) -> None:
    terminal = Terminal(root, "stop", "ci")
    seconds(terminal)
    terminal.type(b"\x03")
    assert terminal.rest().endswith(LINE)
    assert terminal.process.returncode == 130
    terminal.close()


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_cannot_take_it_back_gets_no_line(
    variables: dict[str, str], slow: Slow, root: Path
) -> None:
    plain, shown = Terminal(root, "stop", "ci", **variables), Terminal(root, "stop", "ci")
    quiet = Terminal(root, "-q", "stop", "ci")
    for _ in range(2):
        seconds(shown)  # the control: by now the others would have shown it too
    slow.may.set()
    assert plain.rest() == b"ci\r\n"
    assert quiet.rest() == b""
    shown.rest()
    for each in (plain, shown, quiet):
        each.close()


def test_without_a_terminal_there_is_no_line(slow: Slow, root: Path, hostctl: Hostctl) -> None:
    done: list[subprocess.CompletedProcess[str]] = []
    thread = threading.Thread(target=lambda: done.append(hostctl("stop", "ci")))
    thread.start()
    shown = Terminal(root, "stop", "ci")
    for _ in range(3):
        seconds(shown)
    slow.may.set()
    thread.join(PATIENCE)
    shown.rest()
    shown.close()
    assert (done[0].stdout, done[0].stderr) == ("ci\n", "")
