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

from tests.faults.world import Machine
from tests.waiting import PATIENCE

Inventory = dict[str, Counter[str]]
_PASSING = (
    "audit.head",
    "-wal",
    "-shm",
    "-held",
    ".new",
)  # files that databases and atomic writes come and go with
_NUMBERED = re.compile(r"\[[0-9]+\]")


def inventory(world: Machine) -> Inventory:
    ours = _processes(world)
    return {
        "sandboxes": Counter(list(world.items())),
        "sessions": Counter(world.sessions().values()),
        "processes": Counter(map(_name, ours)),
        "zombies": Counter(_name(pid) for pid in ours if _state(pid) == "Z"),
        "namespaces": _namespaces(ours),
        "cgroups": Counter(_cgroups(world)),
        "mounts": Counter(_mounts(world)),
        "files": Counter(_files(world)),
        "tables": Counter(_our_tables()),
        "hostd descriptors": _descriptors(world.pid("hostd"), set()),
        "broker descriptors": _descriptors(world.pid("broker"), _to_upstream(world)),
    }


def at_rest(world: Machine) -> Inventory:
    """What is there all the time: nothing that is just being closed or only looked with."""
    last = always = inventory(world)
    deadline = time.monotonic() + PATIENCE
    while True:
        time.sleep(0.3)
        now = inventory(world)
        always = {key: always[key] & now[key] for key in now}
        if now == last:
            return always
        assert time.monotonic() < deadline, "this Gitmoat does not come to rest"
        last = now


def assert_settles(world: Machine, before: Inventory) -> None:
    """Equal again, once what was just told to end has ended.

    The watchdog's own looks come and go: what is left over is there whenever we look, what is
    lost never is.
    """
    always = ever = inventory(world)
    deadline = time.monotonic() + PATIENCE
    while different := list(_differences(before, always, ever)):
        assert time.monotonic() < deadline, "\n".join(different)
        time.sleep(0.2)
        now = inventory(world)
        always = {key: always[key] & now[key] for key in now}
        ever = {key: ever[key] | now[key] for key in now}


def _differences(before: Inventory, always: Inventory, ever: Inventory) -> Iterator[str]:
    for key in before:
        got, lost = always[key] - before[key], before[key] - ever[key]
        if key.endswith(" descriptors"):
            lost = Counter()  # a connection that was kept for the next question may be closed
        if got or lost:
            yield f"{key}: lost {sorted(lost.elements())}, got {sorted(got.elements())}"


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


def _processes(world: Machine) -> set[int]:
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
    return left or not status or "tests.stage.git_server" in _text(f"/proc/{pid}/cmdline")


def _instance(world: Machine) -> str:
    found = world.stage.root.stat()
    return f"gitmoat-{found.st_dev:x}-{found.st_ino:x}"


def _namespaces(pids: set[int]) -> Counter[str]:
    """How many of each kind, besides our own."""
    counted: Counter[str] = Counter()
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


def _cgroups(world: Machine) -> Iterator[str]:
    top = Path("/sys/fs/cgroup")
    for hierarchy in (top, *top.iterdir()):
        yield from (str(group) for group in hierarchy.glob(f"{_instance(world)}*/*/"))


def _mounts(world: Machine) -> Iterator[str]:
    for line in _text("/proc/self/mountinfo").splitlines():
        if str(world.stage.root) in line:
            yield line.split(" ")[4]


def _files(world: Machine) -> Iterator[str]:
    for folder in ("etc", "run", "var"):
        for path in (world.stage.root / folder).rglob("*"):
            if not path.name.endswith(_PASSING):
                yield str(path.relative_to(world.stage.root))


def _our_tables() -> list[str]:
    """Of ours in the host's own network: none, ever. What others have there is theirs."""
    listed = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if "gitmoat" in line]


def _to_upstream(world: Machine) -> set[str]:
    """Connections to the git server: the broker keeps one for a while, to use it again."""
    lines = [line.split() for line in _text("/proc/net/tcp").splitlines()[1:]]
    port = f":{world.stage.upstream.port:04X}"
    return {f"socket:[{words[9]}]" for words in lines if words[2].endswith(port)}


def _descriptors(pid: int, ignored: set[str]) -> Counter[str]:
    """What is open, by kind."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    return Counter(_NUMBERED.sub("", text) for text in found if text not in ignored)
