"""The demo, for real: every promise kept, and nothing left behind, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.live.inventory import cgroup_parents
from tests.waiting import PATIENCE, ends_with_its_test, eventually

pytestmark = pytest.mark.root


def demo(*words: str, directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hostctl", "demo", *words],
        env={**environment(), "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return ends_with_its_test(process)


def left_behind(directory: Path) -> list[str]:
    """Processes that name the demo's root or run in a sandbox, and files."""
    found = [str(path) for path in directory.iterdir()]
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                mounts = (process / "mountinfo").read_text()
            except OSError:
                continue
            if int(process.name) != os.getpid() and str(directory) in line + mounts:
                found.append(line)
    return found


def test_all_sixteen_promises_are_kept_and_nothing_is_left(root: Path) -> None:
    process = demo("--json", directory=root)
    eventually(lambda: list(root.iterdir()), "the demo to make its root")
    (made,) = (path.stat() for path in root.iterdir())
    out, err = process.communicate(timeout=5 * PATIENCE)
    result = json.loads(out)
    broken = [check for check in result["checks"] if not check["ok"]]
    assert (process.returncode, broken) == (0, []), err
    assert (result["schema"], result["passed"], result["failed"]) == ("gitmoat.demo/1", 16, 0)
    assert "Traceback" not in err
    eventually(lambda: left_behind(root) == [], "nothing is left")
    assert [str(path) for path in cgroup_parents(made) if path.exists()] == []


@pytest.mark.parametrize(
    ("number", "lines"), [(signal.SIGINT, 0), (signal.SIGTERM, 3), (signal.SIGINT, 7)]
)
def test_an_interrupted_demo_takes_everything_away(root: Path, number: int, lines: int) -> None:
    process = demo(directory=root)
    assert process.stdout is not None and process.stderr is not None
    process.stderr.readline()
    for _ in range(lines):
        process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, out + err
    eventually(lambda: left_behind(root) == [], "nothing is left")
