"""`audit query -f` goes on with what is written, and with what matches only."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from gitmoat.audit.events import DaemonStarted, DaemonStopped
from gitmoat.audit.journal import open_journal
from gitmoat.paths import Paths
from tests.cli.command import environment
from tests.stage.command import command
from tests.waiting import PATIENCE


def test_a_record_that_comes_later_is_shown(root: Path) -> None:
    path = Paths(root).hostd_audit
    path.parent.mkdir(parents=True)
    journal = open_journal(path, "local", lambda: 1_800_000_000.0)
    journal.record(DaemonStarted(name="before"))
    words = ("--json", "audit", "query", "-f", "-n", "1", "--event", "daemon.started")
    following = subprocess.Popen(
        command(root, *words), stdout=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["name"] == "before"
        journal.record(DaemonStopped(name="not asked for"))
        journal.record(DaemonStarted(name="after"))
        assert json.loads(following.stdout.readline())["name"] == "after"
    finally:
        following.kill()
        following.communicate(timeout=PATIENCE)
        journal.close()
