"""A command in a sandbox as one end of a stream: we feed it or take what it prints.

One poll loop; what it prints is taken as it comes, what it complains of is kept in bounds.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hostctl.client import Connection, Done, connect
from hostctl.failure import Failure, plain
from hostctl.stdio import Ends, pipe_ends

_PIECE = 65536
_COMPLAINTS = 16384
_REST = 2 << 20  # more than any pipe holds
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
        self.complaints = b""

    def run(self) -> int:
        """Until the command has ended and what it printed is taken; its exit status."""
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
                self._hear()
            elif descriptor == self._ends.feed:
                self._give()
            else:
                self._read(descriptor)

    def _hear(self) -> None:
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

    def _give(self) -> None:
        assert self._ends.feed is not None  # noqa: S101 -- only polled while it is open
        try:
            sent = os.write(self._ends.feed, self._pending)
        except BlockingIOError:
            return
        except OSError:  # it reads no more; its exit status will tell
            self._end_feed()
            return
        self._pending = self._pending[sent:]

    def _end_feed(self) -> None:
        if self._ends.feed is not None:
            os.close(self._ends.feed)
            self._ends.feed = None
        self._pending = b""

    def _read(self, source: int) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(source, _PIECE)
        except BlockingIOError:
            return False
        if not data:
            os.close(source)
            del self._ends.outputs[source]
        elif self._ends.outputs[source] == 1:
            self._take(data)
        else:
            self.complaints = (self.complaints + data)[:_COMPLAINTS]
        return bool(data)

    def _drain(self) -> None:
        """What was printed before the end; who still holds the pipes is not waited for."""
        for source in list(self._ends.outputs):
            os.set_blocking(source, False)
            for _ in range(_REST // _PIECE):
                if not self._read(source):
                    break


def carry(
    path: Path,
    request: Mapping[str, object],
    feed: Iterator[bytes],
    take: Callable[[bytes], None],
) -> tuple[int, str]:
    """Runs an `exec` request; its exit status and the first line of its complaints."""
    ends = pipe_ends(interactive=True)
    with connect(path, timeout=None) as connection:
        try:
            connection.send(request, ends.far)
        finally:
            ends.close_far()
        carrier = Carrier(connection, ends, feed, take)
        try:
            code = carrier.run()
        finally:
            ends.close_near()
    lines = carrier.complaints.decode(errors="replace").splitlines()
    return code, plain(lines[0]) if lines else ""
