"""How tests wait: for an event, in one place, and never for a time to pass.

PATIENCE only ends what would hang for ever; no test measures anything with it. It is far above
what a machine needs that has ten times as much to do as it can.
"""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

PATIENCE = 180.0
Begun = TypeVar("Begun", subprocess.Popen[bytes], subprocess.Popen[str])
_blocks: list[list[subprocess.Popen[bytes] | subprocess.Popen[str]]] = []


def eventually(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Waits until `true()`; fails with `what` was waited for."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s: {what}"
        time.sleep(0.02)


def readable(descriptor: int, what: str) -> None:
    """Waits until something can be read, or has ended."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    assert poller.poll(int(PATIENCE * 1000)), f"waited {PATIENCE:.0f} s: {what}"


def ends_with_its_test(process: Begun) -> Begun:
    """A process that a test began: whatever becomes of the test, it is not left to the next one.

    A fixture's, if a fixture of a module or of all began it; nobody's outside of pytest.
    """
    if _blocks:
        _blocks[-1].append(process)
    return process


@contextmanager
def ending_what_it_began() -> Iterator[None]:
    """What was begun in the block has ended after it, and its pipes are closed."""
    begun: list[subprocess.Popen[bytes] | subprocess.Popen[str]] = []
    _blocks.append(begun)
    try:
        yield
    finally:
        _blocks.pop()  # they are nested
        for process in begun:
            end(process)


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what was still to be written
                pipe.close()
