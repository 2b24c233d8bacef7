"""hostctl in a process that has given up root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.command import environment
from tests.waiting import PATIENCE

# The interpreter may be out of reach after the uid is gone, so everything is imported before.
DROPPED = """
import os, sys, importlib, pkgutil, json, traceback, hostctl, gitmoat.codes
import gitmoat.identity.control_socket, gitmoat.paths, pathlib, shutil, socket
for module in pkgutil.walk_packages(hostctl.__path__, "hostctl."):
    importlib.import_module(module.name)
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
