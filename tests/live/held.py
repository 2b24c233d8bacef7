"""A transfer that stands still in its middle: a test has all the time that it needs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from tests.stage.boxes import Box
from tests.stage.command import outcome
from tests.waiting import eventually


@frozen
class Held:
    """The client's git processes are stopped; nothing more is read, and nothing more is sent."""

    process: subprocess.Popen[bytes]
    pids: tuple[int, ...]

    def go_on(self) -> subprocess.Popen[bytes]:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return self.process


def hold(box: Box, begin: Callable[[], subprocess.Popen[bytes]]) -> Held:
    """`begin` returns once the transfer is under way."""
    uid = box.inspect()["uids"]["untrusted"]
    process = begin()
    pids = tuple(_gits_of(uid))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert process.poll() is None, outcome(process)
    return Held(process, pids)


def _gits_of(uid: int) -> Iterator[int]:
    for place in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            ours = place.name.isdigit() and place.stat().st_uid == uid
            if ours and (place / "comm").read_text().startswith("git"):
                yield int(place.name)


def wait_for(process: subprocess.Popen[bytes], begun: Callable[[], bool], what: str) -> None:
    """Until a transfer has begun; it must not be over by then."""

    def looked() -> bool:
        assert process.poll() is None, outcome(process)
        return begun()

    eventually(looked, what)
