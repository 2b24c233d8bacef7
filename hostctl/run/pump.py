"""Carries bytes, signals and messages between us, a sandboxed command and hostd until it ends.

One poll loop, no threads. What the command writes is read only when our own end takes it, so a
slow reader holds the command back and never fills memory here.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hostctl.control_client import Connection, Done, Event, Message, Progress
from hostctl.failure import Interrupted
from hostctl.run.stdio import Ends, RawTerminal, attached, copy_window_size
from hostctl.terminal.waiting_line import Waiting

# A pipe that polls writable takes this much without blocking (pipe(7), PIPE_BUF).
CHUNK = 4096
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_INTERRUPTS_TO_LEAVE = 3
_TERMINAL_QUIET = 100  # ms; a pty delivers its last bytes a moment after its last writer is gone
_TERMINAL_REST = 1 << 20
_READY = select.POLLIN | select.POLLHUP | select.POLLERR
_WRITABLE = select.POLLOUT | select.POLLHUP | select.POLLERR


class Pump:
    """Runs one attached command, from its request to its exit code."""

    def __init__(
        self,
        connection: Connection,
        ends: Ends,
        on_progress: Callable[[str], None],
        at_once: bool,
    ) -> None:
        self._connection = connection
        self._ends = ends
        self._on_progress = on_progress
        self._raw = RawTerminal()
        self._stdin_open = ends.feed is not None
        self._to_command = b""
        self._to_us: dict[int, bytes] = {}
        self._interrupts = 0
        self._waits_for = "waiting for hostd"
        self._running = False
        self._at_once = at_once  # for `exec` hostd sends no event before the command runs
        self.started: Mapping[str, object] = {}
        self.result: Mapping[str, object] | None = None

    def run(self) -> int:
        """Pumps until hostd reports the end; returns the command's exit code."""
        with self._raw:
            if self._at_once:
                self._command_runs()
            with _signals() as wakeup:
                while self.result is None:
                    self._turn(wakeup)
            self._drain()
        return exit_code(self.result)

    def _turn(self, wakeup: int) -> None:
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self._connection, select.POLLIN)
        for descriptor, events in self._wanted():
            poll.register(descriptor, events)
        for descriptor, events in self._poll(poll):
            if descriptor == wakeup:
                self._signals_arrived(os.read(wakeup, 64))
            elif descriptor == self._connection.fileno():
                self._messages_arrived(self._connection.arrived())
            else:
                self._ready(descriptor, events)

    def _poll(self, poll: select.poll) -> list[tuple[int, int]]:
        if self._running:  # then the terminal is the command's
            return poll.poll()
        with Waiting(self._waits_for):
            return poll.poll()

    def _wanted(self) -> Iterator[tuple[int, int]]:
        wanted: dict[int, int] = {}
        if self._to_command and self._ends.feed is not None:
            wanted[self._ends.feed] = select.POLLOUT
        elif self._stdin_open:
            wanted[0] = select.POLLIN
        for source, target in self._ends.outputs.items():
            if self._to_us.get(source):
                wanted[target] = select.POLLOUT
            else:
                wanted[source] = wanted.get(source, 0) | select.POLLIN
        yield from wanted.items()

    def _ready(self, descriptor: int, events: int) -> None:
        if descriptor == 0:
            self._take_stdin()
            return
        if descriptor == self._ends.feed and self._to_command and events & _WRITABLE:
            self._feed_command()
        for source, target in list(self._ends.outputs.items()):
            if descriptor == target and self._to_us.get(source):
                self._deliver(source)
            elif descriptor == source and not self._to_us.get(source) and events & _READY:
                self._take(source)

    def _take_stdin(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except OSError:  # our terminal hung up
            data = b""
        self._to_command = data
        if not data:
            self._end_stdin()

    def _end_stdin(self) -> None:
        self._stdin_open = False
        if self._ends.feed is not None and self._ends.terminal is None:
            os.close(self._ends.feed)
            self._ends.feed = None

    def _feed_command(self) -> None:
        assert self._ends.feed is not None  # noqa: S101 -- only polled while it is open
        try:
            sent = os.write(self._ends.feed, self._to_command)
        except BlockingIOError:
            return
        except OSError:  # the command closed its stdin
            self._to_command = b""
            self._end_stdin()
            return
        self._to_command = self._to_command[sent:]

    def _take(self, source: int) -> None:
        data = _read(source)
        if data:
            self._to_us[source] = data
        elif data is not None:
            self._close(source)

    def _deliver(self, source: int) -> None:
        try:
            sent = os.write(self._ends.outputs[source], self._to_us[source])
        except OSError:  # our reader closed its end: the command notices when it writes
            self._to_us[source] = b""
            self._close(source)
            return
        self._to_us[source] = self._to_us[source][sent:]

    def _close(self, source: int) -> None:
        del self._ends.outputs[source]
        if source == self._ends.feed:  # a pty's one descriptor
            self._stdin_open, self._to_command, self._ends.feed = False, b"", None
        if source == self._ends.terminal:
            self._ends.terminal = None
        os.close(source)

    def _signals_arrived(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGWINCH:
                if self._ends.terminal is not None:
                    copy_window_size(self._ends.terminal)
                continue
            self._interrupts += 1
            if not self._running or self._interrupts > _INTERRUPTS_TO_LEAVE:
                raise Interrupted(number)
            self._connection.send({"signal": number})

    def _messages_arrived(self, messages: list[Message]) -> None:
        for message in messages:
            match message:
                case Progress(text):
                    self._on_progress(text)
                    self._waits_for = text
                case Event("started", fields):
                    self.started = fields
                    self._command_runs()
                case Event():
                    pass
                case Done(fields):
                    self.result = fields

    def _command_runs(self) -> None:
        """From here on keys and signals go to the command."""
        self._running = True
        if self._ends.terminal is not None and self._ends.feed is not None:
            self._raw.enter()

    def _drain(self) -> None:
        """What the command wrote before it ended is delivered; later writers are not waited for."""
        for source in list(self._ends.outputs):
            while self._to_us.get(source):
                self._deliver(source)
            if source in self._ends.outputs:
                self._drain_one(source)

    def _drain_one(self, source: int) -> None:
        left = _TERMINAL_REST if source == self._ends.terminal else _bytes_waiting(source)
        while left > 0 and (source != self._ends.terminal or _soon_readable(source)):
            data = _read(source, min(left, CHUNK))
            if not data:
                return
            left -= len(data)
            self._to_us[source] = data
            while self._to_us.get(source):
                self._deliver(source)
            if source not in self._ends.outputs:
                return


def run_attached(
    path: Path,
    request: Mapping[str, object],
    ends: Ends,
    on_progress: Callable[[str], None],
    at_once: bool = False,
) -> tuple[int, Mapping[str, object]]:
    """Sends a request with the far ends; returns the exit code and what `started` said."""
    with attached(path, request, ends) as connection:
        pump = Pump(connection, ends, on_progress, at_once)
        return pump.run(), pump.started


def exit_code(result: Mapping[str, object]) -> int:
    """A command's exit code as a shell shows it: 128+N when signal N ended it."""
    code = result.get("exit", 0)
    if not isinstance(code, int):
        return 125
    return 128 - code if code < 0 else min(code, 255)


def _read(source: int, size: int = CHUNK) -> bytes | None:
    """What is there; b"" at the end, None when there is nothing yet."""
    try:
        return os.read(source, size)
    except BlockingIOError:
        return None
    except OSError:  # EIO: the pty's other side is closed
        return b""


def _bytes_waiting(pipe: int) -> int:
    count: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
    return count


def _soon_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(_TERMINAL_QUIET))


@contextmanager
def _signals() -> Iterator[int]:
    """Signals become bytes on a pipe, so that the one loop handles them between two reads."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    ours = (*_FORWARDED, signal.SIGWINCH)
    heard = [number for number in ours if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in heard}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
