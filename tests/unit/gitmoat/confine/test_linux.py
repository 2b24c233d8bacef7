"""System calls whose effect outlives the process that makes them."""

from __future__ import annotations

import subprocess
import sys

IGNORING = """
import signal
from gitmoat.confine import linux
from gitmoat.confine.syscalls import NUMBERS
import os

CALL = NUMBERS[os.uname().machine]["rt_sigaction"]
IGNORE = (1).to_bytes(8, "little") + bytes(24)
for number in range(1, 65):
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
        linux.system_call("ignore", CALL, number, IGNORE, 0, 8)
{reset}
os.execvp("cat", ["cat", "/proc/self/status"])
"""


def ignored_by_cat(reset: str) -> int:
    program = IGNORING.format(reset=reset)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("SigIgn:")]
    return int(line.split()[1], 16)


def test_no_signal_stays_ignored_not_even_those_that_libc_keeps_for_itself() -> None:
    assert ignored_by_cat("").bit_count() == 61
    assert ignored_by_cat("linux.reset_signals()") == 0
