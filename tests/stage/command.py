"""hostctl on a root: the real command line in a process of its own, and what it said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from attrs import frozen

from hostctl.setup.daemons import clean_environment
from tests.waiting import PATIENCE, ends_with_its_test


class CommandFailed(AssertionError):
    """A command did not do what the test needs of it; the text says what it did."""


@frozen
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    def expect_success(self, what: str) -> str:
        if self.code != 0:
            raise CommandFailed(f"{what} ended with {self.code}: {last_words(self.text)}")
        return self.out.strip()

    def expect_failure(self, what: str) -> str:
        if self.code == 0:
            raise CommandFailed(f"{what} succeeded")
        return self.text


def last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "no output"


def command(root: Path, *words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "hostctl", "--root", str(root), *words]


def run_hostctl(
    root: Path,
    *words: str,
    stdin: str = "",
    timeout: float = PATIENCE,
    inside: tuple[str, ...] = (),
) -> Ran:
    """`inside` are words of another command that runs it, in a namespace for example."""
    try:
        done = subprocess.run(
            [*inside, *command(root, *words)],
            input=stdin.encode(),
            capture_output=True,
            env=clean_environment(),
            timeout=timeout,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"`hostctl {words[0]}` took longer than {timeout:.0f} s") from None
    return _ran(done.returncode, done.stdout, done.stderr)


def begin_hostctl(root: Path, *words: str) -> subprocess.Popen[bytes]:
    """In the background; its stdin is empty."""
    process = subprocess.Popen(
        command(root, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
    )
    return ends_with_its_test(process)


def outcome(process: subprocess.Popen[bytes], seconds: float = PATIENCE) -> Ran:
    out, err = process.communicate(timeout=seconds)
    return _ran(process.returncode, out, err)


def _ran(code: int, out: bytes, err: bytes) -> Ran:
    return Ran(code, out.decode(errors="replace"), err.decode(errors="replace"))
