"""hostctl on a pseudo terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

from tests.cli.command import environment
from tests.stage.command import command
from tests.waiting import PATIENCE, ends_with_its_test, readable


def _sit_down() -> None:
    """The terminal is its own, and its Ctrl-C is heard whoever started these tests, and how."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Terminal:
    """hostctl on a terminal of its own, and us at the keyboard."""

    def __init__(self, root: Path, *words: str, **variables: str) -> None:
        self._unread = b""
        self.master, slave = pty.openpty()
        self._size(slave, 40, 100)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        process = subprocess.Popen(
            command(root, *words),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment(), **variables},
            start_new_session=True,
            preexec_fn=_sit_down,
        )
        self.process = ends_with_its_test(process)

    def _size(self, descriptor: int, rows: int, columns: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        self._size(self.master, rows, columns)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def read_until(self, wanted: bytes) -> bytes:
        """All up to `wanted`; what came behind it is for the next who reads."""
        while wanted not in self._unread:
            readable(self.master, f"{wanted!r} after {self._unread!r}")
            self._unread += os.read(self.master, 4096)
        end = self._unread.index(wanted) + len(wanted)
        data, self._unread = self._unread[:end], self._unread[end:]
        return data

    def rest(self) -> bytes:
        """What comes until hostctl has ended."""
        self._wait()
        self._leave()
        data, self._unread = self._unread, b""
        with suppress(OSError):  # EIO: all was read and nobody holds the other end
            while piece := os.read(self.master, 4096):
                data += piece
        return data

    def close(self) -> None:
        try:
            self._wait()
        finally:
            self._leave()
            os.close(self.master)

    def _wait(self) -> None:
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def _leave(self) -> None:
        slave, self.slave = self.slave, -1
        if slave >= 0:
            os.close(slave)
