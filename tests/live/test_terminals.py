"""A command on a terminal of its own: programs find out what the caller's terminal can do."""

from __future__ import annotations

import re

import pytest

from tests.cli.terminal import Terminal
from tests.stage.boxes import Box

SHOW = 'printf "<%s,%s>" "${TERM-none}" "${COLORTERM-none}"'


def _shown(terminal: Terminal) -> str:
    found = re.search(rb"<(.*)>", terminal.read_until(b">"))
    terminal.close()
    assert found is not None
    return found[1].decode()


@pytest.mark.parametrize("start", [("exec",), ("run", "--rm")], ids=lambda words: words[0])
def test_the_callers_kind_of_terminal_reaches_a_command_with_t(
    agent: Box, start: tuple[str, ...]
) -> None:
    names = (agent.name,) if start == ("exec",) else ()
    words = (*start, "-it", *names, "--", "sh", "-c", SHOW)
    root = agent.stage.root
    assert _shown(Terminal(root, *words, TERM="vt220", COLORTERM="24bit")) == "vt220,24bit"


def test_a_value_that_is_no_terminals_name_is_left_out(agent: Box) -> None:
    words = ("exec", "-it", agent.name, "--", "sh", "-c", SHOW)
    root = agent.stage.root
    terminal = Terminal(root, *words, TERM="../../workspace/x", COLORTERM="a\x1b[2J")
    assert _shown(terminal) == "none,none"


def test_without_t_a_command_learns_nothing_of_our_environment(agent: Box) -> None:
    assert agent.sh(SHOW).out == "<none,none>"


def test_less_shows_a_page_searches_and_ends(agent: Box) -> None:
    agent.sh("seq 1000 > /tmp/numbers").expect_success("seq")
    words = ("exec", "-it", agent.name, "--", "less", "/tmp/numbers")
    terminal = Terminal(agent.stage.root, *words, TERM="xterm")
    first = terminal.read_until(b"/tmp/numbers")  # its prompt, below the first page
    assert b"\x1b[?1049h" in first, "the screen that xterm has beside its own"
    assert b"39\r\n" in first and b"41\r\n" not in first
    terminal.type(b"/777\r")
    assert b"778\r\n" in terminal.read_until(b"778\r\n")
    terminal.type(b"q")
    assert b"\x1b[?1049l" in terminal.rest()
    assert terminal.process.returncode == 0


def test_bash_says_where_it_is(agent: Box) -> None:
    words = ("exec", "-it", agent.name, "--", "bash")
    terminal = Terminal(agent.stage.root, *words, TERM="vt100")
    terminal.read_until(f"sandbox@{agent.name}:/workspace$ ".encode())
    terminal.type(b"exit\r")
    terminal.close()
