"""What one more sandbox costs in memory: sidecars are forked, so most of theirs is shared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.stage.boxes import Box
from tests.stage.sources import ROOT
from tests.waiting import ends_with_its_test

# Its own against all that it uses.
_PART = 3
_ALONE = "import sidecar.service; print(flush=True); input()"


def memory(pid: int) -> dict[str, int]:
    """KiB by kind, as the kernel counts them for the whole process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def is_mostly_shared(found: dict[str, int]) -> bool:
    return (found["Private_Clean"] + found["Private_Dirty"]) * _PART < found["Rss"]


def test_a_sidecar_has_little_of_its_own(agent: Box, split: Box) -> None:
    for box in (agent, split):
        found = memory(box.sidecar)
        assert is_mostly_shared(found), found


def test_one_that_is_started_anew_has_most_of_it_for_itself() -> None:
    """What would be measured if the zygote forked none."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", _ALONE], stdin=pipe, stdout=pipe, cwd=ROOT)
    ends_with_its_test(process)
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    found = memory(process.pid)
    process.communicate(b"\n")
    assert not is_mostly_shared(found), found
