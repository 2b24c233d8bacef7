"""The descriptors a sandboxed command gets instead of ours.

Our own stdin, stdout and stderr never cross: a shared terminal can be typed into (TIOCSTI) and a
shared file can be reopened with other rights through /proc/self/fd. The command gets the far
ends of pipes, or of a pty of its own.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct
import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hostctl.control_client import Connection, connect
from hostctl.failure import NotReached, usage

_WINDOW = struct.Struct("HHHH")
# Programs make a path of TERM, below /usr/share/terminfo for example (terminfo(5)).
_TERMINAL_VARIABLES = ("TERM", "COLORTERM")
_TERMINAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,63}")


class Ends:
    """The ends we keep (`feed`, `outputs`) and those that are passed on (`far`)."""

    def __init__(self, feed: int | None, outputs: dict[int, int], far: tuple[int, int, int]):
        self.feed = feed
        self.outputs = outputs  # what we read from -> our descriptor it is copied to
        self.far = far
        self.terminal: int | None = None

    def close_far(self) -> None:
        for descriptor in set(self.far):
            os.close(descriptor)

    def close_near(self) -> None:
        for descriptor in {*self.outputs, *([] if self.feed is None else [self.feed])}:
            os.close(descriptor)
        self.feed, self.outputs = None, {}


@contextmanager
def attached(path: Path, request: Mapping[str, object], ends: Ends) -> Iterator[Connection]:
    """A connection to hostd that has the request and the far ends; at its end all are closed."""
    with connect(path, timeout=None) as connection:
        try:
            connection.send(request, ends.far)
        finally:
            ends.close_far()
        try:
            yield connection
        finally:
            ends.close_near()


def pipe_ends(interactive: bool) -> Ends:
    """Three pipes; without `interactive` the command reads end-of-file at once."""
    stdin, feed = os.pipe()
    stdout, far_stdout = os.pipe()
    stderr, far_stderr = os.pipe()
    ends = Ends(feed, {stdout: 1, stderr: 2}, (stdin, far_stdout, far_stderr))
    if interactive:
        os.set_blocking(feed, False)
    else:
        os.close(feed)
        ends.feed = None
    return ends


def terminal_ends(interactive: bool) -> Ends:
    """One pty; its master is read and fed by us, its slave is the command's terminal."""
    if not os.isatty(0):
        raise usage("-t needs a terminal, and stdin is none", "leave -t out")
    master, slave = os.openpty()
    os.set_blocking(master, False)
    ends = Ends(master if interactive else None, {master: 1}, (slave, slave, slave))
    ends.terminal = master
    copy_window_size(master)
    return ends


def terminal_variables(tty: bool, environ: Mapping[str, str]) -> dict[str, str]:
    """What kind of terminal ours is: all that a command gets of our environment, with `-t` alone.

    A value that does not look like a terminal's name is left out.
    """
    if not tty:
        return {}
    given = {name: environ.get(name, "") for name in _TERMINAL_VARIABLES}
    return {name: value for name, value in given.items() if _TERMINAL_NAME.fullmatch(value)}


def null_ends(directory: Path) -> Ends:
    """For a detached command: a null device of its own, unlinked at once.

    hostd gives the descriptors to the command's uid, and who owns /dev/null may change its mode.
    """
    path = directory / f".null.{os.urandom(8).hex()}"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, Path(os.devnull).stat().st_rdev)
    except FileNotFoundError:
        raise NotReached("C103", "hostd is not running", f"{directory} does not exist") from None
    except PermissionError:
        raise NotReached("C102", "`hostctl run -d` needs root", fix="use sudo") from None
    try:
        null = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    finally:
        path.unlink()
    return Ends(None, {}, (null, null, null))


def copy_window_size(terminal: int) -> None:
    """The kernel then sends SIGWINCH to the command's foreground group (tty_ioctl(4))."""
    try:
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(_WINDOW.size))
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    except OSError:
        pass  # not every terminal has a size


class RawTerminal:
    """Puts our own terminal into raw mode, so that every key is passed on."""

    def __init__(self) -> None:
        self._before: list[int | list[bytes | int]] | None = None

    def enter(self) -> None:
        self._before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)

    def leave(self) -> None:
        if self._before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            self._before = None

    def __enter__(self) -> RawTerminal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()
