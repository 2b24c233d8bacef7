"""A process that hostd knows by its pidfd."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hostd.process.handle import Process


def _started() -> Process:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return Process(child, os.pidfd_open(child))


def test_it_is_killed_and_so_is_one_that_has_ended_meanwhile() -> None:
    process = _started()
    process.kill()
    assert os.waitpid(process.pid, 0)[1] == signal.SIGKILL
    process.kill()  # its pid is free; nobody else is meant
    process.ended(-signal.SIGKILL)
    process.kill()
    assert process.status == -signal.SIGKILL


def test_the_group_of_one_that_has_ended_may_be_somebody_elses() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # it stays pending, to be seen
    leader, other = _started(), _started()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    os.setpgid(leader.pid, leader.pid)
    os.setpgid(other.pid, leader.pid)
    leader.kill()
    os.waitpid(leader.pid, 0)
    leader.signal_session(signal.SIGUSR1)  # nobody has told us yet that it ended
    status = Path(f"/proc/{other.pid}/status").read_text(encoding="ascii")
    other.kill()
    other.ended(os.waitstatus_to_exitcode(os.waitpid(other.pid, 0)[1]))
    leader.ended(-signal.SIGKILL)
    assert "ShdPnd:\t0000000000000000\n" in status
