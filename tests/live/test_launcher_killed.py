"""A launcher that is killed leaves nothing behind that hostd cannot find."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hostd.process.requests import Answered, Asked, Command, Join, Started, packed, unpack_answered
from tests.waiting import eventually

_ELSEWHERE = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "infinity"]
_WAIT = 20_000  # milliseconds


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return list(map(int, text.split()))


@contextmanager
def first_process() -> Iterator[int]:
    """A pidfd of the first process of a pid namespace."""
    with subprocess.Popen(_ELSEWHERE) as outside:
        eventually(lambda: children(outside.pid), "a first process")
        (pid,) = children(outside.pid)
        pidfd = os.pidfd_open(pid)
        try:
            yield pidfd
        finally:
            os.close(pidfd)
            os.kill(pid, signal.SIGKILL)


@contextmanager
def launcher() -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.settimeout(60)
    command = [sys.executable, "-P", "-m", "hostd.launcher", str(far.fileno())]
    with near, far, subprocess.Popen(command, pass_fds=[far.fileno()]) as process:
        far.close()
        hear(near)
        yield near, process
        process.kill()


def hear(link: socket.socket) -> tuple[Answered, list[int]]:
    data, descriptors, _, _ = socket.recv_fds(link, 65536, 16)
    return unpack_answered(data), descriptors


def ask(link: socket.socket, command: Command, *descriptors: int) -> None:
    socket.send_fds(link, [packed(Asked(number=1, request=command))], descriptors)


def ends(pidfd: int, within: int = _WAIT) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(within))


def test_with_the_launcher_goes_what_has_not_begun_in_another_pid_namespace(tmp_path: Path) -> None:
    """It waits to join a cgroup, and whoever inherits it need not know of it."""
    (tmp_path / "slow").mkdir()
    os.mkfifo(tmp_path / "slow" / "cgroup.procs")
    with first_process() as pidfd, launcher() as (link, process):
        room = Join(namespaces=("pid",), pidfd=pidfd)
        slow = (str(tmp_path / "slow"),)
        ask(link, Command(argv=("/bin/true",), environment={}, room=room, cgroups=slow), pidfd)
        eventually(lambda: children(process.pid), "a child")
        (child,) = children(process.pid)
        with closing_pidfd(child) as held:
            process.kill()
            try:
                assert ends(held), "the child waits on, for a hostd that has given it up"
            finally:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(held, signal.SIGKILL)


@pytest.mark.parametrize("uid", [0, 54321])
def test_a_command_that_has_begun_goes_on_without_the_launcher(uid: int) -> None:
    with launcher() as (link, process):
        ask(link, Command(argv=("/bin/sleep", "600"), environment={}, uid=uid))
        answer, (pidfd,) = hear(link)
        assert isinstance(answer.answer, Started)
        process.kill()
        process.wait()
        try:
            assert not ends(pidfd, 500)
        finally:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


@contextmanager
def closing_pidfd(pid: int) -> Iterator[int]:
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)
