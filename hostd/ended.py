"""What is said of a sandbox that has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostd.cgroups import out_of_memory
from hostd.registry import Record
from hostd.sandbox import Sandbox


def why_ended(sandbox: Sandbox, ended: Sequence[str]) -> str:
    """Which of its first processes nobody of ours ended is gone, and whether memory was short."""
    names = {
        "room": "its first process" if sandbox.plan.image is None else "its container",
        "gate": "the first process of its git gate",
        "holder": "the container that holds its network",
    }
    why = f"{' and '.join(names[each] for each in ended)} ended from outside"
    times = out_of_memory(sandbox.cgroups.get("sandbox", ()))
    return f"{why}; its memory was full {times} times" if times else why


def stopped_summary(record: Record) -> dict[str, Any]:
    return {
        "sandbox": record.id,
        "name": record.name,
        "runtime": "bwrap" if record.image is None else "docker",
        "state": record.step.value,
        "policy": record.policy.get("name"),
        "created": record.created,
        "exit": record.exit_status,
    }
