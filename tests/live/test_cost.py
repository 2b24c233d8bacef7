"""What one more sandbox costs in memory: sidecars are forked, so most of theirs is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stage.boxes import Box

pytestmark = pytest.mark.live

_OWN_KIB = 40 * 1024


def memory(pid: int) -> dict[str, int]:
    """KiB by kind, as the kernel counts them for the whole process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def test_a_sidecar_has_little_of_its_own(agent: Box, split: Box) -> None:
    for box in (agent, split):
        found = memory(box.sidecar)
        own = found["Private_Clean"] + found["Private_Dirty"]
        assert own < _OWN_KIB, found
