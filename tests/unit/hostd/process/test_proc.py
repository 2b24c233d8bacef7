"""Files of /proc of processes that nobody can choose a better name for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostd.process.proc import mountinfo, parse_mountinfo, start_time, state, status

_NAMED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1]), 0, 0, 0)
print("named", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(name: bytes) -> Iterator[int]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _NAMED, os.fsdecode(name)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"named\n"
        yield child.pid


@pytest.mark.parametrize(
    "name",
    [b"a) R 1 2", b"x\nUid:\t0 0", b")", b"a b\tc\x0bd", b"\xff\xfe) Z", b"\\n\n\r", b"\x1c\x85"],
)
def test_a_name_is_taken_for_nothing_else(name: bytes) -> None:
    with process(name) as pid:
        found = status(pid)
        assert found["Uid"].split() == [str(os.getuid())] * 4
        assert found["Pid"] == str(pid)
        assert state(pid) in ("S", "R")
        assert start_time(pid) is not None


def test_a_process_that_has_ended_has_no_mounts() -> None:
    """Until its parent has asked for its status, opening the file is an EINVAL."""
    with process(b"ends") as pid:
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert state(pid) == "Z"
        assert parse_mountinfo(mountinfo(pid)) == []
    assert parse_mountinfo(mountinfo(pid)) == []
