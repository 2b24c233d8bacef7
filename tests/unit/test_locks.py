"""requirements.lock is what runs; requirements-dev.lock is that, and what builds and tests it."""

from __future__ import annotations

import pytest

from tests.stage.sources import ROOT
from tools.sbom import NAME, needed, pins

RUNS, BUILDS = "requirements.lock", "requirements-dev.lock"


def text(lock: str) -> str:
    return (ROOT / lock).read_text(encoding="utf-8")


@pytest.mark.parametrize("lock", [RUNS, BUILDS])
def test_every_line_pins_a_version_with_its_hashes(lock: str) -> None:
    lines = [line for line in text(lock).splitlines() if line and line[0] not in " #"]
    assert lines
    assert len(lines) == len(pins(text(lock)))


def test_what_runs_is_pinned_and_nothing_else() -> None:
    assert {*pins(text(RUNS)), NAME} == set(needed(NAME))


def test_what_is_tested_is_what_runs() -> None:
    runs, builds = pins(text(RUNS)), pins(text(BUILDS))
    assert {name: builds.get(name) for name in runs} == runs
    assert {"pytest", "mypy", "sphinx", "setuptools"} <= builds.keys() - runs.keys()


@pytest.mark.parametrize("planted", ["attrs==26.1.0\n", "attrs>=26 \\\n    --hash=sha256:0\n"])
def test_a_line_without_a_pin_or_a_hash_is_none(planted: str) -> None:
    assert pins(planted) == {}
