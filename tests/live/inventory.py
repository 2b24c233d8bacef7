"""All that a running Gitmoat has of the machine, to be compared before and after."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from hostctl.demo_stage import Stage
from tests.live.kernel_view import status


def inventory(stage: Stage) -> dict[str, object]:
    about = json.loads(stage.hostctl("--json", "status").expect_success("status"))
    hostd = about["hostd"]["pid"]
    sessions = json.loads(stage.hostctl("--json", "session", "ls").expect_success("session ls"))
    return {
        "sandboxes": about["sandboxes"],
        "sessions": sum(session["state"] != "ended" for session in sessions["items"]),
        "files": sorted(_files(stage)),
        "cgroups": sorted(cgroups(stage.root)),
        "processes": sorted(_name(pid) for pid in descendants(hostd)),
        "descriptors": {name: _count(pid) for name, pid in _daemons(about).items()},
        "mounts": Path("/proc/self/mountinfo").read_text().count(str(stage.root)),
    }


def _daemons(about: dict[str, dict[str, int]]) -> dict[str, int]:
    hostd = about["hostd"]
    return {"hostd": hostd["pid"], "launcher": hostd["launcher"], "zygote": hostd["zygote"]}


def _count(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _files(stage: Stage) -> Iterator[str]:
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
            yield Path(fields.split(" ")[4], f"gitmoat-{root.st_dev:x}-{root.st_ino:x}")


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
