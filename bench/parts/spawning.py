"""From the fork of a sidecar to its links to the broker: confined, keys made, TLS agreed."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from bench.chains.way import OURS
from bench.figures import Book
from tests.fakes.confined_world import ConfinedWorld

_HELPER = 61002


def measure(book: Book, rounds: int) -> None:
    for number in range(rounds + 1):
        milliseconds = _once() * 1000
        if number:
            book.add("sidecar: fork to TLS links", OURS, "ms", milliseconds)


def _once() -> float:
    folder = Path(tempfile.mkdtemp(prefix="gm-spawn-", dir="/tmp"))
    folder.chmod(0o755)
    world = ConfinedWorld(folder, helper_uid=_HELPER)  # returns when it has forked
    begun = time.perf_counter()
    try:
        world.start()
        return time.perf_counter() - begun
    finally:
        world.stop()
        shutil.rmtree(folder)
