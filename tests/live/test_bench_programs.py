"""What a benchmark starts is gone when it ends, children and all."""

from __future__ import annotations

from pathlib import Path

from bench.processes import Programs
from tests.stage.boxes import alive
from tests.waiting import eventually


def test_children_that_outlive_their_parent_are_ended_too(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.start("parent", ["sh", "-c", "sleep 600 & echo $! > child; wait"])
    child = tmp_path / "child"
    eventually(lambda: child.exists() and child.read_text().strip(), "the child's pid")
    pid = int(child.read_text())
    assert alive(pid)
    programs.stop()
    eventually(lambda: not alive(pid) or _ended(pid), "the child's end")


def _ended(pid: int) -> bool:
    """Dead, and not yet reaped by whoever inherited it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
