"""Five hundred command lines nobody would type: each ends with an exit code and, if it failed,
with one error that has a code, a why and a fix; never with a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cli.lines import EXITS, check_line, line

COUNT = 500


@pytest.mark.parametrize("part", range(10))
def test_no_line_ends_in_a_traceback(
    part: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(part)
    monkeypatch.setenv("GITMOAT_ROOT", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    for _ in range(COUNT // 10):
        words = line(dice)
        assert check_line(words, monkeypatch, capsys) in EXITS, words
