"""A process that hostd knows by its pidfd."""

from __future__ import annotations

import os
import signal

from hostd.process import Process


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
