"""`--memory`, `--pids`, `--cpus`: one sandbox's excess is its own (threat model 39)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.stage.boxes import Box, MakeBox
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import refs
from tests.waiting import eventually

PIDS = 48
SPARE = 16  # a command's uid may have so many fewer

# Forks until it cannot, and all of it stays.
BOMB = """
import os, sys, time
made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        made += 1
    except OSError:
        print(made, flush=True)
        time.sleep(600)
"""


def group(stage: Gitmoat, box: Box, controller: str) -> Path:
    """The sandbox's cgroup in the hierarchy that has the controller."""
    about = stage.root.stat()
    name = f"gitmoat-{about.st_dev:x}-{about.st_ino:x}/{box.inspect()['sandbox']}-sandbox"
    for parent in (Path("/sys/fs/cgroup", controller), Path("/sys/fs/cgroup")):
        if (parent / name).is_dir():
            return parent / name
    raise AssertionError("no cgroup")


def test_a_fork_bomb_stops_at_the_limit_and_the_git_gate_still_works(
    make_box: MakeBox, stage: Gitmoat, branch: str
) -> None:
    box = make_box("--pids", str(PIDS), "--push", "agent/**")
    box.sh(f"git checkout -q -b {branch} && git commit -q --allow-empty -m Bombed")
    bomb = box.begin("/usr/bin/python3", "-c", BOMB)
    assert bomb.stdout is not None
    assert 0 < int(bomb.stdout.readline()) < PIDS
    running = group(stage, box, "pids") / "pids.current"
    assert PIDS - SPARE <= int(running.read_text()) < PIDS
    events = group(stage, box, "pids") / "pids.events"
    assert events.read_text().split() == ["max", "0"], (
        "each fork was refused before its cgroup was asked"
    )
    box.git("ls-remote", "origin").expect_success("ls-remote")
    box.git("fetch", "origin").expect_success("fetch")
    box.git("push", "origin", branch).expect_success("push")
    assert f"refs/heads/{branch}" in refs(stage)
    assert int(running.read_text()) >= PIDS - SPARE  # it was there all the time
    box.remove()
    outcome(bomb)


def test_threads_count_too(make_box: MakeBox) -> None:
    box = make_box("--pids", str(PIDS), repo=None)
    source = (
        "import threading, time, json\n"
        "made = 0\n"
        "try:\n"
        "    while made < 1000:\n"
        "        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "        made += 1\n"
        "except RuntimeError:\n"
        "    pass\n"
        "print(json.dumps(made))\n"
    )
    assert 0 < box.python(source) < PIDS


def test_a_hog_is_killed_and_sidecar_and_sandbox_go_on(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--memory", "128m")
    sidecar, room = box.sidecar, box.inspect()["pid"]
    ran = box.run("/usr/bin/python3", "-c", "held = [bytearray(1 << 20) for _ in range(1024)]")
    assert ran.code == 137
    after = box.inspect()
    assert (after["sidecar"]["pid"], after["pid"], after["state"]) == (sidecar, room, "running")
    assert after["sidecar"]["restarts"] == 0
    box.git("ls-remote", "origin").expect_success("ls-remote")
    fits = box.run("/usr/bin/python3", "-c", "held = bytearray(64 << 20); print(len(held))")
    assert fits.out == f"{64 << 20}\n"


def test_files_in_memory_count_as_memory(make_box: MakeBox) -> None:
    box = make_box("--memory", "128m", repo=None)
    ran = box.sh("head -c 300000000 /dev/zero > /tmp/f")
    assert ran.code != 0
    assert box.inspect()["state"] == "running"


def test_processor_time_is_shared_out(make_box: MakeBox, stage: Gitmoat) -> None:
    """The kernel has the share, and holds back who would take more."""
    box = make_box("--cpus", "0.25", repo=None)
    place = group(stage, box, "cpu")
    assert quota(place) == 0.25
    box.begin("sh", "-c", "while :; do :; done")
    eventually(lambda: throttled(place) > 2, "it is held back")


def quota(place: Path) -> float:
    """Of one processor."""
    if (place / "cpu.max").exists():
        most, period = (place / "cpu.max").read_text().split()
    else:
        most, period = ((place / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(most) / int(period)


def throttled(place: Path) -> int:
    """How often it had used up its share of a period."""
    lines = (place / "cpu.stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("nr_throttled "))


def test_there_are_limits_without_asking(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box(repo=None)
    assert int((group(stage, box, "pids") / "pids.max").read_text()) == 4096
    eventually(lambda: box.inspect()["state"] == "running", "the sandbox")


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii"))


def capable() -> bool:
    """Whether this machine lets its root set scores; `hostctl doctor` says where it does not."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return bool(int(text.partition("CapEff:")[2].split()[0], 16) >> 24 & 1)


# Asks to be spared, as its uid could if nobody with privileges had said how much it may ask for.
SPARED = """
import json, sys
try:
    score = open("/proc/self/oom_score_adj", "wb", buffering=0)
    score.write(b"%d" % json.load(sys.stdin))
    print(json.dumps("done"))
except OSError as problem:
    print(json.dumps(type(problem).__name__))
"""


def test_where_memory_is_short_commands_end_first_and_daemons_last(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box(repo=None)
    about = json.loads(stage.hostctl("--json", "status").out)
    daemons = [about["broker"]["pid"], *(about["hostd"][n] for n in ("pid", "launcher", "zygote"))]
    assert set(map(score, daemons)) == {-900 if capable() else 0}
    assert score(box.sidecar) == (-500 if capable() else 0)
    assert box.sh("cat /proc/self/oom_score_adj").out == "500\n"
    assert box.sh("cat /proc/self/oom_score_adj", as_helper=True).out == "500\n"
    assert box.python(SPARED, 499) == ("PermissionError" if capable() else "done")
    assert box.python(SPARED, -1) == "PermissionError"


def test_all_sandboxes_together_leave_memory_and_processes_for_the_daemons(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box(repo=None)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    rooms = group(stage, box, "memory").parent
    limits = [rooms / "memory.limit_in_bytes", rooms / "memory.max"]
    assert [int(file.read_text()) < machine * 7 // 8 + 4096 for file in limits if file.exists()]
    assert int((group(stage, box, "pids").parent / "pids.max").read_text()) > 4096
    sidecar = Path(f"/proc/{box.sidecar}/cgroup").read_text(encoding="ascii")
    assert f"/{rooms.name}-sidecars/" in sidecar and f"/{rooms.name}/" not in sidecar


def test_shared_memory_has_a_size(make_box: MakeBox) -> None:
    box = make_box(repo=None)
    source = "import json, os; s = os.statvfs('/dev/shm'); print(json.dumps(s.f_blocks*s.f_frsize))"
    assert box.python(source) == 1 << 30
