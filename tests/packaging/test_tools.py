"""The scripts that count: what they print is about the code as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


def printed(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def traced() -> str:
    return printed("tools.trace", "--rounds", "1")


@pytest.mark.parametrize("what", ["an allowed fetch", "a refused push", "a tunnel"])
@pytest.mark.parametrize("process", ["sidecar", "broker"])
def test_a_request_takes_part_in_both_processes(traced: str, what: str, process: str) -> None:
    found = re.search(rf"^{what} +{process} +(\d+) modules, +(\d+) switches$", traced, re.MULTILINE)
    assert found is not None
    modules, switches = int(found[1]), int(found[2])
    assert 1 < modules <= switches + 1


def test_a_credential_lookup_is_the_sidecars_alone(traced: str) -> None:
    assert re.search(r"^a credential lookup +sidecar +\d+ modules", traced, re.MULTILINE)
    assert re.search(r"^a credential lookup +broker +takes no part$", traced, re.MULTILINE)


def test_the_sizes_add_up() -> None:
    product, _ = printed("tools.size").split("\n\n")
    *packages, whole = [line.rsplit(maxsplit=2) for line in product.splitlines()]
    for column in (1, 2):
        numbers = [int(line[column].replace(",", "")) for line in (*packages, whole)]
        assert sum(numbers[:-1]) == numbers[-1]
