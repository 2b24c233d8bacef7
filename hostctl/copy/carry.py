"""A command in a sandbox at one end of a stream: bytes go to its stdin or come from its stdout.

One poll loop; stdout is taken as it comes, and of stderr a bounded part is kept.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hostctl.control_client import Connection, Done
from hostctl.failure import Failure, plain
from hostctl.run.stdio import Ends, attached, pipe_ends

_CHUNK = 65536
_MOST_ERRORS = 16384
_MOST_LEFT = 2 << 20  # more than any pipe holds
_TIMEOUT = 60_000  # ms without a byte in any direction


class Carrier:
    def __init__(
        self,
        connection: Connection,
        ends: Ends,
        feed: Iterator[bytes],
        take: Callable[[bytes], None],
    ) -> None:
        self._connection = connection
        self._ends = ends
        self._feed = feed
        self._take = take
        self._pending = b""
        self._result: Mapping[str, object] | None = None
        self.errors = b""

    def run(self) -> int:
        """Runs until the command has ended and its output is read; returns its exit status."""
        while self._result is None:
            self._turn()
        self._drain()
        code = self._result.get("exit", 1)
        return code if isinstance(code, int) else 1

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        for source in self._ends.outputs:
            poll.register(source, select.POLLIN)
        if self._ends.feed is not None and self._more_to_feed():
            poll.register(self._ends.feed, select.POLLOUT)
        ready = poll.poll(_TIMEOUT)
        if not ready:
            raise Failure("C106", "the sandbox neither reads nor sends anything")
        for descriptor, _ in ready:
            if descriptor == self._connection.fileno():
                self._read_messages()
            elif descriptor == self._ends.feed:
                self._write_feed()
            else:
                self._read(descriptor)

    def _read_messages(self) -> None:
        for message in self._connection.arrived():
            if isinstance(message, Done):
                self._result = message.fields

    def _more_to_feed(self) -> bool:
        while not self._pending:
            piece = next(self._feed, None)
            if piece is None:
                self._end_feed()
                return False
            self._pending = piece
        return True

    def _write_feed(self) -> None:
        assert self._ends.feed is not None  # noqa: S101 -- only polled while it is open
        try:
            sent = os.write(self._ends.feed, self._pending)
        except BlockingIOError:
            return
        except OSError:  # it has closed its stdin; its exit status says whether that is an error
            self._end_feed()
            return
        self._pending = self._pending[sent:]

    def _end_feed(self) -> None:
        if self._ends.feed is not None:
            os.close(self._ends.feed)
            self._ends.feed = None
        self._pending = b""

    def _read(self, source: int) -> bool:
        """Reads once; returns whether there may be more."""
        try:
            data = os.read(source, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            os.close(source)
            del self._ends.outputs[source]
        elif self._ends.outputs[source] == 1:
            self._take(data)
        else:
            self.errors = (self.errors + data)[:_MOST_ERRORS]
        return bool(data)

    def _drain(self) -> None:
        """Takes what was printed before the end; processes that hold the pipes are not awaited."""
        for source in list(self._ends.outputs):
            os.set_blocking(source, False)
            for _ in range(_MOST_LEFT // _CHUNK):
                if not self._read(source):
                    break


def carry(
    path: Path,
    request: Mapping[str, object],
    feed: Iterator[bytes],
    take: Callable[[bytes], None],
) -> tuple[int, str]:
    """Runs an `exec` request; returns its exit status and the first line of its stderr."""
    ends = pipe_ends(interactive=True)
    with attached(path, request, ends) as connection:
        carrier = Carrier(connection, ends, feed, take)
        code = carrier.run()
    lines = carrier.errors.decode(errors="replace").splitlines()
    return code, plain(lines[0]) if lines else ""
