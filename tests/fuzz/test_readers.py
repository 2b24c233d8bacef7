"""The fuzz targets, for seconds: every seed, random bytes, mutated seeds, and a guided run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.readers import READERS
from tests.fuzz.seeds import seeds

ROOT = Path(__file__).parents[2]
SECONDS = 10
SEEDS = seeds()


def test_every_reader_has_seeds() -> None:
    assert SEEDS.keys() == READERS.keys()
    assert all(SEEDS.values())


@pytest.mark.parametrize("name", READERS)
def test_seeds_hold(name: str) -> None:
    for seed in SEEDS[name]:
        READERS[name](seed)


# pytest-twisted cannot wrap a property that is parametrised, so the reader is drawn.
@given(name=st.sampled_from(list(READERS)), data=st.data())
@settings(max_examples=600)
def test_bytes_near_a_seed_hold(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[name]))
    at = data.draw(st.integers(0, len(seed)))
    cut = data.draw(st.integers(0, 4))
    READERS[name](seed[:at] + data.draw(st.binary(max_size=6)) + seed[at + cut :])


@given(name=st.sampled_from(list(READERS)), raw=st.binary(max_size=200))
@settings(max_examples=600)
def test_any_bytes_hold(name: str, raw: bytes) -> None:
    READERS[name](raw)


@pytest.mark.long
def test_a_guided_run_finds_nothing(tmp_path: Path) -> None:
    """`make fuzz` is the same for longer. `make test-long` puts atheris where this looks for it."""
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", str(SECONDS), "--seed", "1"]
    done = subprocess.run(
        [*command, "--corpus", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".fuzz" / "lib")},
        capture_output=True,
        timeout=SECONDS * 10 + 60,
        check=False,
    )
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-3000:]
    assert not list(tmp_path.glob("crash-*"))
    assert len(list((tmp_path / "all").iterdir())) > sum(map(len, SEEDS.values()))
