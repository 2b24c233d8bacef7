"""What a process is like that is warm for sidecars, and is going to fork many."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[4]
SCRIPT = """
import json, os, sys
before = sorted(os.listdir("/proc/self/fd"))
from sidecar.prefork.warmup import warm
warm()
print(json.dumps({
    "descriptors": [before, sorted(os.listdir("/proc/self/fd"))],
    "reactor": "twisted.internet.reactor" in sys.modules,
    "threads": len(os.listdir("/proc/self/task")),
}))
"""


def test_it_has_no_descriptor_reactor_or_thread_more_than_before_and_said_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE
    )
    found = json.loads(done.stdout)
    before, after = found["descriptors"]
    assert before == after
    assert not found["reactor"]
    assert found["threads"] == 1
    assert done.stderr == b""
