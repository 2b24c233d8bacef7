"""A hostd that stands still where a test wants it to: the test's end of its failpoints."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field

from gitmoat.paths import Paths
from hostctl.setup.daemons import Daemon, clean_environment
from tests.waiting import readable


@define(eq=False)
class StandsStill:
    """Starts hostd with a socket of ours, and stops it at steps."""

    _socket: socket.socket | None = field(default=None, init=False)

    def start(self, paths: Paths) -> Daemon:
        self.close()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ready, far = os.pipe()
        with theirs, paths.hostd_log.open("ab") as log:
            words = ("--ready-fd", str(far), "--failpoints-fd", str(theirs.fileno()))
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hostd", "--root", str(paths.root), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                cwd="/",
                pass_fds=(far, theirs.fileno()),
                start_new_session=True,
            )
        os.close(far)
        try:
            with os.fdopen(ready, "rb") as line:
                readable(line.fileno(), "hostd to start")
                assert line.readline() == b"ready\n", paths.hostd_log.read_text()[-2000:]
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Daemon("hostd", process)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    @contextmanager
    def armed(self, step: str, count: int = 1) -> Iterator[Stop]:
        """hostd will stop at this step; it goes on at the end of the block, if it is still there.

        Whatever happens in the block, the point is not left armed for the next test.
        """
        assert self._socket is not None, "this hostd has no failpoints"
        stop = Stop(self._socket, step)
        stop.arm(count)
        try:
            yield stop
        finally:
            stop.go_on()


@define(eq=False)
class Stop:
    _socket: socket.socket
    _step: str
    _waiting: bool = field(default=True, init=False)

    def arm(self, count: int) -> None:
        while select.select([self._socket], [], [], 0)[0] and self._socket.recv(256):
            pass  # what an earlier test did not wait for
        self._socket.send(f"{self._step} {count}".encode("ascii"))

    def wait(self) -> str:
        """The sandbox that has come to the step; hostd stands still from now on."""
        readable(self._socket.fileno(), f"a sandbox at the step {self._step}")
        step, identifier = self._socket.recv(256).decode("ascii").split()
        assert step == self._step
        return identifier

    def go_on(self) -> None:
        """Also when nothing ever came to the step: the point is taken back."""
        if self._waiting:
            self._waiting = False
            try:
                self._socket.send(f"{self._step} 0".encode("ascii"))
            except ConnectionError:
                pass  # the test has killed it
