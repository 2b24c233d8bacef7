"""The journal against a file system that fills up and a writer that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gitmoat.audit.chain import read_events, verify_journal
from gitmoat.audit.events import DaemonStopped
from gitmoat.audit.journal import open_journal
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[4]

# Runs in a mount namespace of its own, on a file system of 64 KiB.
FULL_DISK = """
import os, subprocess, sys
from gitmoat.audit.events import SessionRevoked
from gitmoat.audit.journal import JournalUnavailable, open_journal
from gitmoat.audit.chain import verify_journal

where = sys.argv[1]
subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "-o", "size=64k", "none", where], check=True)
event = SessionRevoked(session="s", reason="r" * 400)
journal = open_journal(where + "/audit.ndjson", "host", lambda: 0.0)
journal.record(event)
ballast = os.open(where + "/ballast", os.O_WRONLY | os.O_CREAT)
try:
    while os.write(ballast, bytes(1024)):
        pass
except OSError as full:
    print(full.strerror)
refused = 0
for _ in range(100):
    try:
        journal.record(event)
    except JournalUnavailable as problem:
        refused += 1
        reason = problem.what
    size = os.stat(where + "/audit.ndjson").st_size
    text = open(where + "/audit.ndjson", "rb").read()
    assert len(text) == size and text.endswith(b"\\n")
assert refused > 50, refused
print(reason)
count = verify_journal(where + "/audit.ndjson").count
assert count == 100 - refused + 1 == journal.head()[0]
os.ftruncate(ballast, 0)
assert journal.record(event) == count + 1
assert verify_journal(where + "/audit.ndjson", journal.head()).count == count + 1
print("works again")
"""

WRITER = """
import sys
from gitmoat.audit.events import PushDecision, RefChange
from gitmoat.audit.journal import open_journal
changes = tuple(RefChange(f"refs/heads/{n}", "0" * 40, "1" * 40) for n in range(50))
event = PushDecision(sandbox="sb", session="s", decision="allow", tier="helper", repo="g:a/b",
                     refs=changes)
journal = open_journal(sys.argv[1], "host", lambda: 0.0)
for _ in range(3000):
    print(journal.record(event), flush=True)
"""


def test_a_full_disk_refuses_every_record_whole_and_recovers_with_space(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", sys.executable, "-c", FULL_DISK, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "No space left on device",
        "the disk is full, and what was kept is used up",
        "works again",
    ]


def acknowledged(path: Path, seconds: float) -> int:
    """Let a writer work for a while, kill it, and return the last number it told us."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(seconds)
        os.kill(writer.pid, signal.SIGKILL)
        told = (first + writer.stdout.read()).split(b"\n")[:-1]
    return int(told[-1])


def test_what_a_killed_writer_acknowledged_is_there_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    for seconds in (0.0, 0.02, 0.05, 0.1):
        told = acknowledged(path, seconds)
        assert path.read_bytes().count(b"\n") >= told
    journal = open_journal(path, "host", lambda: 0.0)
    journal.record(DaemonStopped(name="writer"))
    journal.close()
    assert verify_journal(path, journal.head()).count > told


def test_a_reader_beside_the_writer_sees_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            for _ in range(10):
                assert verify_journal(path).count > 0
                assert all(event["host"] == "host" for event in read_events(path))
        finally:
            os.kill(writer.pid, signal.SIGKILL)
