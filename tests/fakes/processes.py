"""Real processes of other uids; the tests run as root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from tests.waiting import ends_with_its_test

# A child reads one statement per line, runs it, and answers `done`.
_OBEY = """
import os, socket, sys
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@contextmanager
def as_uid(uid: int) -> Iterator[None]:
    """This process with another effective uid, for a while."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


class Child:
    """A Python of `uid` that does what it is told, line by line."""

    def __init__(self, uid: int) -> None:
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-ISc", _OBEY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=uid,
            group=uid,
            extra_groups=[],
        )
        ends_with_its_test(self.process)

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, statement: str) -> None:
        self.tell(statement)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def tell(self, statement: str) -> None:
        """Like `do`, for a statement that does not come back."""
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass
