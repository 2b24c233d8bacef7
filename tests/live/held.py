"""A transfer that stands still in its middle: a test has all the time that it needs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from tests.stage.boxes import HOME, Box, Clone
from tests.stage.command import Ran, outcome
from tests.stage.play import LARGE
from tests.stage.repositories import (
    receiving,
)
from tests.waiting import eventually

_MIB = 1 << 20
QUICK = ("-c", "core.compression=0", "-c", "pack.window=0")


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


def begin_clone(box: Box, name: str) -> subprocess.Popen[bytes]:
    """A clone of the large repository that has begun to bring objects."""
    url = box.stage.url(LARGE)
    process = box.begin("git", *QUICK, "clone", "--no-checkout", "-q", url, f"{HOME}/{name}")
    packs = box.path(f"{HOME}/{name}/.git/objects/pack")

    def begun() -> bool:
        return any(path.stat().st_size > 5 * _MIB for path in packs.glob("tmp_pack_*"))

    wait_for(process, begun, "the clone to begin")
    return process


def begin_push(clone: Clone, repository: str) -> subprocess.Popen[bytes]:
    """A push of which the upstream has some, and not all."""
    stage = clone.box.stage
    words = ("push", stage.url(repository), "HEAD:refs/heads/main")
    process = clone.box.begin("git", "-C", clone.directory, *QUICK, *words)

    wait_for(process, lambda: receiving(stage, repository) > _MIB, "the push to arrive")
    return process


def broke_off(ran: Ran) -> None:
    """Git says that the transfer broke. (After that it may print "Everything up-to-date", by
    itself: it does whenever a push gets no report.)"""
    assert ran.code in (1, 128), ran
    assert "fatal: " in ran.err, ran.err
