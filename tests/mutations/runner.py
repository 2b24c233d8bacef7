"""Applies one mutation at a time to a copy of the tree and runs the tests that must notice it."""

from __future__ import annotations

import enum
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field, frozen

from tests.mutations.table import Mutation

ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".fuzz", ".bench", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info"),
    *("bench", "docs", "build", "dist", "man"),
)
_AT_MOST = 1800.0
_TO_END = 300.0


class Verdict(enum.Enum):
    KILLED = "killed"
    SURVIVED = "SURVIVED"
    NONE = "NO VERDICT"


@frozen
class Ran:
    """One run of pytest: 0 all passed, 1 some failed; None: it did not end in time."""

    code: int | None
    seconds: float
    output: str


@frozen
class Result:
    verdict: Verdict
    seconds: float
    output: str


def applied(mutation: Mutation, text: str) -> str:
    """The mutated source; a mutation whose text is gone or ambiguous means nothing."""
    found = text.count(mutation.before)
    if found != 1:
        raise ValueError(f"{mutation.name}: its text stands {found} times in {mutation.file}")
    return text.replace(mutation.before, mutation.after)


@define(eq=False)
class Tree:
    """A copy that is mutated and restored, and which tests have passed in it unmutated."""

    path: Path
    _sound: set[str] = field(factory=set)

    def run(self, mutation: Mutation) -> Result:
        """A test that fails without the mutation too notices nothing: that is no verdict."""
        mutated = self._mutated(mutation)
        if mutated.code != 1:
            verdict = Verdict.SURVIVED if mutated.code == 0 else Verdict.NONE
            return Result(verdict, mutated.seconds, mutated.output)
        unproved = [test for test in mutation.tests if test not in self._sound]
        if not unproved:
            return Result(Verdict.KILLED, mutated.seconds, mutated.output)
        unmutated = _pytest(self.path, unproved)
        seconds = mutated.seconds + unmutated.seconds
        if unmutated.code != 0:
            said = f"{unmutated.output}\nThat was without the mutation."
            return Result(Verdict.NONE, seconds, said)
        self._sound.update(unproved)
        return Result(Verdict.KILLED, seconds, mutated.output)

    def _mutated(self, mutation: Mutation) -> Ran:
        file = self.path / mutation.file
        text = file.read_text(encoding="utf-8")
        file.write_text(applied(mutation, text), encoding="utf-8")
        try:
            return _pytest(self.path, mutation.tests)
        finally:
            file.write_text(text, encoding="utf-8")


@contextmanager
def copied() -> Iterator[Tree]:
    # Short: socket paths are limited. Passable: other uids read code in it.
    with tempfile.TemporaryDirectory(prefix="gm-mut-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        # Compiled once, for all the processes that tests start. Python compares such a file with
        # the hash of the source, not with its time: a mutation is never hidden by it.
        mode = ("--invalidation-mode", "checked-hash")
        subprocess.run([sys.executable, "-m", "compileall", "-q", *mode, tree], check=True)
        yield Tree(tree)


def _pytest(tree: Path, tests: Iterable[str]) -> Ran:
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    # A place of its own: pytest takes away what other runs left in the one that all share.
    with tempfile.TemporaryDirectory(prefix="gm-mut-", ignore_cleanup_errors=True) as place:
        process = subprocess.Popen(
            [*command, f"--basetemp={place}/t", *tests],
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        code, output = _ended(process)
    return Ran(code, time.monotonic() - begun, output)


def _ended(process: subprocess.Popen[str]) -> tuple[int | None, str]:
    try:
        output, _ = process.communicate(timeout=_AT_MOST)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # pytest then takes its fixtures down
    try:
        return None, process.communicate(timeout=_TO_END)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return None, process.communicate()[0]
