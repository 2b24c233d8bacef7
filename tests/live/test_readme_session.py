"""The README's session, typed again: every command works, and says what the README shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from hostctl.demo_repositories import create_repository
from hostctl.demo_stage import Ran, Stage

pytestmark = pytest.mark.live

README = Path(__file__).parents[2] / "README.md"
REPOSITORY = "readme/app"
# The stage has been set up; these three are shown by the command lines' own tests.
SET_UP = ("up", "cred", "upstream")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@frozen
class Step:
    words: tuple[str, ...]
    shown: tuple[str, ...]


def steps() -> Iterator[Step]:
    for block in _BLOCK.findall(README.read_text(encoding="utf-8")):
        for part in re.split(r"^# ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            line, *shown = part.splitlines()
            program, *words = shlex.split(line.partition(" < ")[0])
            if program == "hostctl":
                yield Step(tuple(words), tuple(shown))


def here(text: str, stage: Stage) -> str:
    """The README's names as this stage has them."""
    text = text.replace("git.example.com", f"localhost:{stage.upstream.port}")
    return text.replace("acme/app", REPOSITORY).replace("example:", "demo:")


def comparable(lines: list[str]) -> list[str]:
    """Ids, hashes and counts differ; the two streams come in any order."""
    named = [re.sub(r"\b[0-9a-f]{16,64}\b", "ID", line.rstrip()) for line in lines]
    return sorted(re.sub(r"\b\d+ records", "N records", line) for line in named)


def test_the_session_of_the_readme_is_what_happens(stage: Stage) -> None:
    files = {"test.sh": b"echo all tests pass\n"}
    create_repository(stage.upstream.repositories, REPOSITORY, files)
    done = [step.words[0] for step in steps()]
    assert done[:3] == list(SET_UP)
    for step in steps():
        if step.words[0] not in SET_UP:
            ran: Ran = stage.hostctl(*(here(word, stage) for word in step.words), timeout=120)
            shown = [here(line, stage) for line in step.shown]
            assert comparable(ran.text.splitlines()) == comparable(shown), step.words
