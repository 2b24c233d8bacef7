"""Transcripts: what is typed, what is read, how it ends. `? N` is an exit code other than 0.

A line `...` stands for any lines, and `[...]` for anything in a line. What is typed may read a file
with `< FILE`. `python -m tests.cli.test_transcripts NAME` writes what hostctl says now into
transcripts/NAME.txt.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.cli.steps import FILES, Step, steps
from tests.cli.worlds import TRANSCRIPTS, TypedIn, fresh_world, quiet_world, running_world
from tests.stage.command import command
from tests.waiting import PATIENCE

_ELISION = re.compile(r"^\.\.\.$|\[\.\.\.\]", re.MULTILINE)


def play(world: TypedIn, step: Step) -> tuple[str, int]:
    file = step.typed.partition(" < ")[2]
    done = subprocess.run(
        command(world.root, *(world.here(word) for word in step.words)),
        input=(world.directory / file).read_text() if file else "",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        cwd=world.directory,
    )
    return world.shown(done.stdout).rstrip("\n"), done.returncode


def fits(expected: str, shown: str) -> bool:
    """The width of a column is not a promise."""
    expected, shown = (re.sub(r" +", " ", text) for text in (expected, shown))
    parts = [re.escape(part) for part in _ELISION.split(expected)]
    return re.fullmatch("(?:.*)".join(parts), shown, re.DOTALL) is not None


@pytest.fixture(scope="module")
def running() -> Iterator[TypedIn]:
    with running_world() as world:
        yield world


def check(world: TypedIn, text: str) -> None:
    for step in steps(text):
        shown, code = play(world, step)
        if not (code == step.exit_code and fits(step.expected, shown)):
            assert (step.typed, shown, code) == (step.typed, step.expected, step.exit_code)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_transcript(file: Path, request: pytest.FixtureRequest) -> None:
    text = file.read_text(encoding="utf-8")
    if text.startswith("# running"):
        world = request.getfixturevalue("running")
        try:
            check(world, text)
        except BaseException:
            empty(world)  # what it has left is no reason for the next one to fail
            raise
        return
    with fresh_world() if text.startswith("# fresh") else quiet_world(text) as world:
        check(world, text)


def empty(world: TypedIn) -> None:
    def hostctl(*words: str) -> str:
        whole = command(world.root, *words)
        given = {"capture_output": True, "text": True, "env": environment(), "timeout": PATIENCE}
        return str(subprocess.run(whole, **given).stdout)  # type: ignore[call-overload]

    for identifier in hostctl("ls", "-q").split():
        hostctl("rm", "--force", identifier)


def rewrite(file: Path, world: TypedIn) -> None:
    """What hostctl says now, into the transcript; to be read before it is believed."""
    text = file.read_text(encoding="utf-8")
    blocks = [text.partition("\n")[0]]
    for step in steps(text):
        shown, code = play(world, step)
        kept = step.expected if fits(step.expected, shown) else shown
        ending = f"? {code}" if code else ""
        blocks.append("\n".join(part for part in (f"$ {step.typed}", kept, ending) if part) + "\n")
    file.write_text("\n".join(blocks), encoding="utf-8")


def main() -> None:
    files = [TRANSCRIPTS / f"{name}.txt" for name in sys.argv[1:]]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    with ExitStack() as stack:
        shared: TypedIn | None = None
        for file, text in texts.items():
            if text.startswith("# running"):
                shared = shared or stack.enter_context(running_world())
                rewrite(file, shared)
                continue
            with fresh_world() if text.startswith("# fresh") else quiet_world(text) as world:
                rewrite(file, world)


if __name__ == "__main__":
    main()
