"""The steps of the transcripts: what is typed, what is read, how it ends."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tests.cli.worlds import TRANSCRIPTS

FILES = sorted(TRANSCRIPTS.glob("*.txt"))


class Step(NamedTuple):
    typed: str
    expected: str
    exit_code: int

    @property
    def words(self) -> list[str]:
        """Behind `hostctl`, without the file that is read."""
        program, *words = shlex.split(self.typed.partition(" < ")[0])
        assert program == "hostctl", self.typed
        return words

    @property
    def options(self) -> list[str]:
        words = self.words
        return words[: words.index("--")] if "--" in words else words


def steps(text: str) -> Iterator[Step]:
    typed: str | None = None
    expected, code = "", 0
    for line in [*text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if typed is not None:
                yield Step(typed, expected.rstrip("\n"), code)
            typed, expected, code = line[2:], "", 0
        elif line.startswith("? "):
            code = int(line[2:])
        elif typed is not None:  # before the first command stands what the transcript is about
            expected += line + "\n"


def typed() -> Iterator[Step]:
    """All of them."""
    for file in FILES:
        yield from steps(file.read_text(encoding="utf-8"))
