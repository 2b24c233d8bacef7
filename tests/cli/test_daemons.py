"""Starting a daemon: known to be ready, or nothing left of it and one clear error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitmoat.paths import Paths
from hostctl.failure import Failure
from hostctl.setup.daemons import Daemon, start_daemon
from tests.waiting import PATIENCE

PROGRAM = """
import json, os, sys, time
root, ready = sys.argv[2], int(sys.argv[4])
with open(os.path.join(root, "pid"), "w") as file:
    file.write(str(os.getpid()))
"""
FACTS = """
facts = {"cwd": os.getcwd(), "session": os.getsid(0) == os.getpid(), "env": dict(os.environ),
         "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))}
with open(os.path.join(root, "facts"), "w") as file:
    json.dump(facts, file)
"""


@pytest.fixture
def paths(root: Path) -> Paths:
    paths = Paths(root)
    paths.log_dir.mkdir(parents=True)
    return paths


def start(paths: Paths, body: str, patience: float = PATIENCE) -> Daemon:
    (paths.root / "broker.py").write_text(PROGRAM + body)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(paths.root)}
    return start_daemon("broker", paths, environment, patience)


def gone(paths: Paths) -> bool:
    pid = int((paths.root / "pid").read_text())
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_ready_daemon_is_detached_and_holds_nothing_of_ours(paths: Paths) -> None:
    import json

    body = FACTS + 'os.write(ready, b"ready\\n")\ntime.sleep(600)'
    daemon = start(paths, body)
    daemon.stop()
    facts = json.loads((paths.root / "facts").read_text())
    assert facts["cwd"] == "/"
    assert facts["session"] is True
    assert set(facts["env"]) <= {"PATH", "PYTHONPATH", "LC_CTYPE"}
    assert len(facts["fds"]) == 5  # stdio, the ready pipe, and the listing itself
    assert gone(paths)


def test_a_daemons_own_error_is_shown_as_it_is(paths: Paths) -> None:
    error = '{"error": {"code": "C104", "what": "port in use", "why": "8443", "fix": "stop it"}}'
    with pytest.raises(Failure) as caught:
        start(paths, f"os.write(ready, {error + chr(10)!r}.encode()); sys.exit(1)")
    failure = caught.value
    assert (failure.code, failure.what, failure.why) == ("C104", "port in use", "8443")
    assert gone(paths)


def test_a_daemon_that_ends_without_a_word_leaves_its_last_log_line(paths: Paths) -> None:
    with pytest.raises(Failure) as caught:
        start(paths, 'print("ImportError: no twisted", file=sys.stderr); sys.exit(1)')
    assert caught.value.what == "broker did not start"
    assert caught.value.why == "ImportError: no twisted"
    assert str(paths.broker_log) in caught.value.fix


def test_a_daemon_that_never_gets_ready_is_ended(paths: Paths) -> None:
    with pytest.raises(Failure) as caught:
        start(paths, "time.sleep(600)", patience=1.5)
    assert caught.value.exit_code == 124
    # One that had not even begun when its time was over has left no pid.
    assert not (paths.root / "pid").exists() or gone(paths)
