"""The same command lines where hostd, broker and a sandbox answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.lines import EXITS, check_line, line
from tests.stage.boxes import start_box
from tests.stage.gitmoat import Gitmoat, opened

pytestmark = pytest.mark.root
COUNT = 500
PARTS = 10


@pytest.fixture(scope="module")
def stage() -> Iterator[Gitmoat]:
    with opened() as made:
        yield made


@pytest.mark.parametrize("part", range(PARTS))
def test_no_line_ends_in_a_traceback_and_the_daemons_live(
    part: int,
    stage: Gitmoat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(1000 + part)
    box = start_box(stage, "--agent")  # it may not survive the lines
    before = stage.hostctl("status").out
    monkeypatch.setenv("GITMOAT_ROOT", str(stage.root))
    monkeypatch.chdir(tmp_path)
    for _ in range(COUNT // PARTS):
        words = line(dice, box.name)
        if words[:1] != ["down"]:
            assert check_line(words, monkeypatch, capsys) in EXITS, words
    after = stage.hostctl("status").out
    assert [each.split("  ")[:3] for each in after.splitlines()] == [
        each.split("  ")[:3] for each in before.splitlines()
    ]
