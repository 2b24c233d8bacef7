"""Who is not root is told so in one error, before anything is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.fakes.daemon import FakeDaemon
from tests.waiting import PATIENCE

# The interpreter may be out of reach after the uid is gone, so everything is imported before.
DROPPED = """
import os, sys, importlib, pkgutil, json, traceback, hostctl, netpolicy.codes
import identity.controlsocket, identity.paths, pathlib, shutil, socket
for module in pkgutil.iter_modules(hostctl.__path__):
    if not module.name.startswith("demo_"):
        importlib.import_module("hostctl." + module.name)
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
from hostctl.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def as_nobody(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", DROPPED, "--root", str(root), *words],
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["up"],
        ["down"],
        ["demo"],
        ["audit", "query"],
        ["cred", "ls"],
        ["reload"],
        ["upstream", "add", "x", "--url", "https://h", "--cred", "c"],
    ],
    ids=lambda words: words[0],
)
def test_verbs_that_need_root_say_so(root: Path, words: list[str]) -> None:
    done = as_nobody(root, *words)
    assert done.returncode == 7
    assert done.stderr.splitlines() == [
        f"error: `hostctl {words[0]}` needs root [C102]",
        "why: the control sockets are for uid 0",
        "fix: use sudo",
    ]
    assert list(root.iterdir()) == []


def test_a_control_socket_of_root_is_out_of_reach(root: Path) -> None:
    root.chmod(0o755)
    socket = root / "run" / "gitmoat" / "hostd.sock"
    with FakeDaemon(socket, {"ls": {"ok": True, "items": []}}) as daemon:
        done = as_nobody(root, "ls")
    assert (done.returncode, daemon.requests) == (7, [])
    assert done.stderr.startswith("error: not permitted to talk to hostd [C102]\n")
