"""What one more sandbox costs in memory: sidecars are forked, so most of theirs is shared."""

from __future__ import annotations

from pathlib import Path

from tests.stage.boxes import Box

# Its own against all that it uses. One that is started anew has most of it for itself.
_PART = 3


def memory(pid: int) -> dict[str, int]:
    """KiB by kind, as the kernel counts them for the whole process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def test_a_sidecar_has_little_of_its_own(agent: Box, split: Box) -> None:
    for box in (agent, split):
        found = memory(box.sidecar)
        own = found["Private_Clean"] + found["Private_Dirty"]
        assert own * _PART < found["Rss"], found
