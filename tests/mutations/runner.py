"""Applies one mutation to a copy of the tree and runs the tests that must notice it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from tests.mutations.table import Mutation

ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "bench", "docs"
)
_PATIENCE = 1800


@frozen
class Result:
    """Of one run of pytest: 0 all passed, 1 some failed; anything else is no verdict."""

    code: int
    seconds: float
    output: str

    @property
    def killed(self) -> bool:
        return self.code == 1


def applied(mutation: Mutation, text: str) -> str:
    """The mutated source; a mutation whose text is gone or ambiguous means nothing."""
    found = text.count(mutation.before)
    if found != 1:
        raise ValueError(f"{mutation.name}: its text stands {found} times in {mutation.file}")
    return text.replace(mutation.before, mutation.after)


def run(mutation: Mutation) -> Result:
    with _copy() as tree:
        file = tree / mutation.file
        file.write_text(applied(mutation, file.read_text(encoding="utf-8")), encoding="utf-8")
        return _pytest(tree, mutation.tests)


def run_unmutated(mutations: Iterable[Mutation]) -> Result:
    """In a copy as well: a test that fails there by itself would notice nothing."""
    tests = {test: None for mutation in mutations for test in mutation.tests}
    with _copy() as tree:
        return _pytest(tree, tests)


@contextmanager
def _copy() -> Iterator[Path]:
    # Short: socket paths are limited. Passable: other uids read code in it.
    with tempfile.TemporaryDirectory(prefix="gm-mut-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        yield tree


def _pytest(tree: Path, tests: Iterable[str]) -> Result:
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.terminate()  # pytest then takes its fixtures down
        output, _ = process.communicate(timeout=120)
    return Result(process.returncode, time.monotonic() - begun, output)
