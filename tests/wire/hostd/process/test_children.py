"""Which children are held up, and which only wait for a processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostd.process.children import LONGEST, Child, Problem
from hostd.process.requests import Answered, Refused, packed, unpack_answered
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


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (b"2 no such file", Problem("no such file", 2)),
        (b"99999999999999999999 no error of the kernel's", Problem("no error of the kernel's")),
        (b"-1 negative", Problem("negative")),
        (b"\xff\xff", Problem("")),
    ],
)
def test_whatever_one_says_of_its_problem_hostd_can_be_told(said: bytes, meant: Problem) -> None:
    problems, write = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(write, said)
        heard = Child(1, os.getpid(), -1, problems, deadline=0, cause="a", lasting=True).problem()
    finally:
        os.close(problems)
        os.close(write)
    assert heard == meant
    told = Answered(number=1, answer=Refused(why=meant.text, errno=meant.errno))
    assert unpack_answered(packed(told)) == told
