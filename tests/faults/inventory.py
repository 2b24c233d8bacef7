"""All that one Gitmoat has of the machine, to be compared before and after.

Other instances on the machine are left out: a process counts if it is in a cgroup of this
instance, names its root, or descends from its daemons.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.world import World

_PASSING = (
    "audit.head",
    "-wal",
    "-shm",
    ".new",
)  # files that databases and atomic writes come and go with
_NUMBERED = re.compile(r"\[[0-9]+\]")


def inventory(world: World) -> dict[str, object]:
    ours = _processes(world)
    return {
        "sandboxes": sorted(world.items()),
        "sessions": sorted(world.sessions().values()),
        "processes": sorted(map(_name, ours)),
        "zombies": sorted(_name(pid) for pid in ours if _state(pid) == "Z"),
        "namespaces": _namespaces(ours),
        "cgroups": sorted(_cgroups(world)),
        "mounts": sorted(_mounts(world)),
        "files": sorted(_files(world)),
        "rules": _host_rules(),
        "hostd descriptors": _descriptors(world.pid("hostd"), set()),
        "broker descriptors": _descriptors(world.pid("broker"), _to_upstream(world)),
    }


def at_rest(world: World) -> dict[str, object]:
    """An inventory that stays the same for a moment: nothing is just being closed."""
    before = inventory(world)
    for _ in range(50):
        time.sleep(0.3)
        after = inventory(world)
        if after == before:
            return after
        before = after
    raise AssertionError("this Gitmoat does not come to rest")


def assert_settles(world: World, before: dict[str, object], seconds: float = 20) -> None:
    """Equal again, once what was just told to end has ended."""
    deadline = time.monotonic() + seconds
    while different := _differences(before, inventory(world)):
        assert time.monotonic() < deadline, "\n".join(different)
        time.sleep(0.2)


def _differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return [
        f"{key}: {_difference(before[key], after[key])}"
        for key in before
        if before[key] != after[key]
        and not (key.endswith(" descriptors") and _fewer(before[key], after[key]))
    ]


def _fewer(before: object, after: object) -> bool:
    """A connection that was just kept open for the next question may be closed since."""
    return (
        isinstance(before, list)
        and isinstance(after, list)
        and not Counter(after) - Counter(before)
    )


def _difference(before: object, after: object) -> str:
    if not isinstance(before, list) or not isinstance(after, list):
        return f"{before} before, {after} after"
    old, new = Counter(before), Counter(after)
    return f"lost {sorted((old - new).elements())}, got {sorted((new - old).elements())}"


def _status(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def _name(pid: int) -> str:
    return _status(pid).get("Name", "gone")


def _state(pid: int) -> str:
    return _status(pid).get("State", "?")[0]


def _text(path: str) -> str:
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _processes(world: World) -> set[int]:
    daemons = {world.pid("hostd"), world.pid("broker")}
    root, instance = f"{world.stage.root}/", _instance(world)
    parents, found = {}, set(daemons)
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        parents[pid] = int(_status(pid).get("PPid", "0"))
        if instance in _text(f"/proc/{pid}/cgroup") or root in _text(f"/proc/{pid}/cmdline"):
            found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid for pid in found if not _foreign(pid)}


def _foreign(pid: int) -> bool:
    """The git server of the stage; and what is dead and left to init, which takes its time."""
    status = _status(pid)
    left = status.get("PPid") == "1" and status.get("State", "")[:1] == "Z"
    return left or not status or "demo_upstream" in _text(f"/proc/{pid}/cmdline")


def _instance(world: World) -> str:
    found = world.stage.root.stat()
    return f"gitmoat-{found.st_dev:x}-{found.st_ino:x}"


def _namespaces(pids: set[int]) -> dict[str, int]:
    """How many of each kind, besides our own."""
    counted = {}
    for kind in ("net", "pid", "mnt", "ipc", "uts", "cgroup", "user"):
        ours = os.stat(f"/proc/self/ns/{kind}").st_ino
        counted[kind] = len(set(_inodes(pids, kind)) - {ours})
    return counted


def _inodes(pids: set[int], kind: str) -> Iterator[int]:
    for pid in pids:
        try:
            yield os.stat(f"/proc/{pid}/ns/{kind}").st_ino
        except OSError:
            pass


def _cgroups(world: World) -> Iterator[str]:
    top = Path("/sys/fs/cgroup")
    for hierarchy in (top, *top.iterdir()):
        yield from (str(group) for group in (hierarchy / _instance(world)).glob("*/"))


def _mounts(world: World) -> Iterator[str]:
    for line in _text("/proc/self/mountinfo").splitlines():
        if str(world.stage.root) in line:
            yield line.split(" ")[4]


def _files(world: World) -> Iterator[str]:
    for folder in ("etc", "run", "var"):
        for path in (world.stage.root / folder).rglob("*"):
            if not path.name.endswith(_PASSING):
                yield str(path.relative_to(world.stage.root))


def _host_rules() -> str:
    listed = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True)
    return listed.stdout


def _to_upstream(world: World) -> set[str]:
    """Connections to the git server: the broker keeps one for a while, to use it again."""
    lines = [line.split() for line in _text("/proc/net/tcp").splitlines()[1:]]
    port = f":{world.stage.upstream.port:04X}"
    return {f"socket:[{words[9]}]" for words in lines if words[2].endswith(port)}


def _descriptors(pid: int, ignored: set[str]) -> list[str]:
    """What is open, by kind."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    return sorted(_NUMBERED.sub("", text) for text in found if text not in ignored)
