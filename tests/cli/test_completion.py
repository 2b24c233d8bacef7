"""A real bash completes sandbox names, verbs, options and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import CHECKOUT, Hostctl, environment
from tests.cli.scripted import HOSTD
from tests.fakes.daemon import FakeDaemon
from tests.waiting import PATIENCE


def complete(root: Path, line: str) -> list[str]:
    """What bash would offer for the last word of the line."""
    bin_directory = root / "bin"
    bin_directory.mkdir(exist_ok=True)
    program = bin_directory / "hostctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hostctl --root {root} "$@"\n')
    program.chmod(0o755)
    script = f"""
        eval "$(hostctl completion bash)"
        COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        compopt() {{ :; }}
        _hostctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = environment()
    env["PATH"] = f"{bin_directory}:{env['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        env=env,
        cwd=CHECKOUT,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_sandboxes_by_name_and_id(root: Path) -> None:
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", HOSTD):
        assert complete(root, "hostctl inspect ''")[:2] == ["ci", "3f9a0c21b7de"]
        assert complete(root, "hostctl rm c") == ["ci"]


def test_bash_offers_verbs_options_and_files(root: Path) -> None:
    assert complete(root, "hostctl ses") == ["session"]
    assert complete(root, "hostctl inspect --no") == ["--no-color"]
    assert "Makefile" in complete(root, "hostctl policy check Make")
    assert complete(root, "hostctl inspect x") == []  # nobody answers: nothing is offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_asks_for_words(hostctl: Hostctl, shell: str) -> None:
    done = hostctl("completion", shell)
    assert done.returncode == 0
    assert "| hostctl completion words 2>/dev/null" in done.stdout


def test_words_are_read_from_stdin_without_root(hostctl: Hostctl) -> None:
    assert hostctl("completion", "words", stdin="hostctl\nveri\n").stdout.startswith("verify\t")
