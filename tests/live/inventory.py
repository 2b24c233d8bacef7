"""All that a running Gitmoat has of the machine, to be compared before and after."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import status
from tests.waiting import eventually

Inventory = dict[str, Any]


def inventory(stage: Gitmoat) -> Inventory:
    about = json.loads(stage.hostctl("--json", "status").expect_success("status"))
    hostd = about["hostd"]["pid"]
    sessions = json.loads(stage.hostctl("--json", "ls", "--fleet").expect_success("ls"))
    return {
        "sandboxes": about["sandboxes"],
        "sessions": sum(session["state"] != "ended" for session in sessions["items"]),
        "files": sorted(_files(stage)),
        "cgroups": sorted(cgroups(stage.root)),
        "processes": sorted(_name(pid) for pid in descendants(hostd)),
        "descriptors": {name: _count(pid) for name, pid in _daemons(about).items()},
        "mounts": Path("/proc/self/mountinfo").read_text().count(str(stage.root)),
    }


def at_rest(stage: Gitmoat) -> Inventory:
    """Once it is the same for a moment: nothing is just being closed."""
    looks = [inventory(stage)]

    def still() -> bool:
        looks.append(inventory(stage))
        return looks[-1] == looks[-2]

    eventually(still, "this Gitmoat to come to rest")
    return looks[-1]


def differences(before: Inventory, after: Inventory) -> list[str]:
    """A connection that was kept for the next question may be closed since."""
    counted = before["descriptors"], after["descriptors"]
    more = [name for name, count in counted[1].items() if count > counted[0][name]]
    return more + [key for key in before if key != "descriptors" and before[key] != after[key]]


def _daemons(about: dict[str, dict[str, int]]) -> dict[str, int]:
    hostd = about["hostd"]
    return {"hostd": hostd["pid"], "launcher": hostd["launcher"], "zygote": hostd["zygote"]}


def _count(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _files(stage: Gitmoat) -> Iterator[str]:
    for folder in ("etc", "run", "var"):
        for path in (stage.root / folder).rglob("*"):
            if path.name != "audit.head":  # a daemon that is ended in order leaves it
                yield str(path.relative_to(stage.root))


def cgroups(root: Path) -> Iterator[str]:
    """The groups of this root, in each hierarchy."""
    for parent in cgroup_parents(root.stat()):
        yield from (str(group) for group in parent.glob("*/"))


def cgroup_parents(root: os.stat_result) -> Iterator[Path]:
    """Each hierarchy's directory for a root, which may be gone already."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup"):
            name = f"gitmoat-{root.st_dev:x}-{root.st_ino:x}"
            yield from (Path(fields.split(" ")[4], each) for each in (name, f"{name}-sidecars"))


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            children.setdefault(int(status(name)["PPid"]), []).append(int(name))
        except OSError:
            continue
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting.extend(below)
    return found


def _name(pid: int) -> str:
    try:
        return status(pid)["Name"]
    except OSError:
        return "gone"
