"""Which children are held up, and which only wait for a processor."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostd.children import LONGEST, Child
from tests.waiting import eventually


@contextmanager
def running(source: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-I", "-c", source]) as process:
        try:
            yield process
        finally:
            process.kill()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


def child(pid: int) -> Child:
    return Child(1, pid, -1, -1, deadline=0, cause="a", lasting=True, begun=0)


def test_one_that_could_run_has_more_time_but_not_for_ever() -> None:
    with running("while True: pass") as process:
        eventually(lambda: child(process.pid).starved(LONGEST - 1), "it to run")
        assert not child(process.pid).starved(LONGEST + 1)


def test_one_that_is_stopped_or_waits_has_not() -> None:
    with running("import signal; signal.pause()") as process:
        eventually(lambda: state(process.pid) == "S", "it to wait")
        assert not child(process.pid).starved(1)
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: state(process.pid) == "T", "it to stop")
        assert not child(process.pid).starved(1)


def test_one_that_is_gone_has_not() -> None:
    with running("pass") as process:
        process.wait()
        assert not child(process.pid).starved(1)
