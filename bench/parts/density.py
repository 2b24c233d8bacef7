"""What one more sandbox costs: time to start it, memory of its sidecar, CPU of an idle one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.chains.gitmoat import Box, hostctl, make_box
from bench.chains.way import OURS
from bench.figures import Book
from bench.parts.programs import seconds
from bench.processes import cpu_seconds, memory, resident
from tests.stage.instance import Instance

BWRAP = "bwrap"
_AT_ONCE = 4
_IDLE_SECONDS = 5
_ALONE = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
          "--proc", "/proc", "true"]  # fmt: skip


def start_up(instance: Instance, book: Book, rounds: int) -> None:
    """`hostctl run --rm -- true`: room, rules, sidecar, session, command, and all of it gone."""
    for number in range(rounds + 1):
        begun = time.perf_counter()
        hostctl(instance, "run", "--rm", "--policy", "bench", "--", "true")
        ours, theirs = time.perf_counter() - begun, seconds(_ALONE)
        if number:
            book.add("sandbox, start to end", OURS, "s", ours)
            book.add("sandbox, start to end", BWRAP, "s", theirs)


def crowd(instance: Instance, book: Book, numbers: Sequence[int]) -> None:
    """Time and memory as sandboxes become more."""
    names = [f"crowd-{number}" for number in range(max(numbers))]
    boxes: list[Box] = []
    hostd = instance.status()["hostd"]["pid"]
    broker = instance.status()["broker"]["pid"]
    try:
        for number in numbers:
            more = names[len(boxes) : number]
            begun = time.perf_counter()
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                boxes += pool.map(lambda name: make_box(instance, name), more)
            each = (time.perf_counter() - begun) / len(more)
            book.add(f"N = {number}: one more sandbox", OURS, "s", each)
            _look(book, boxes, f"N = {number}")
            book.add(f"N = {number}: hostd", OURS, "MiB", resident([hostd]) / 1024)
            book.add(f"N = {number}: broker", OURS, "MiB", resident([broker]) / 1024)
    finally:
        for start in range(0, len(boxes), 50):
            hostctl(instance, "rm", "--force", *names[start : start + 50])


def _look(book: Book, boxes: Sequence[Box], where: str) -> None:
    pids = [box.sidecar for box in boxes]
    before = cpu_seconds(pids)
    time.sleep(_IDLE_SECONDS)
    idle = (cpu_seconds(pids) - before) / len(pids) / _IDLE_SECONDS
    seen = [memory(pid) for pid in pids]
    own = [each["Private_Clean"] + each["Private_Dirty"] for each in seen]
    pss = [each["Pss"] for each in seen]
    book.add(f"{where}: PSS of a sidecar", OURS, "MiB", statistics.median(pss) / 1024)
    book.add(f"{where}: USS of a sidecar", OURS, "MiB", statistics.median(own) / 1024)
    book.add(f"{where}: CPU of an idle sidecar", OURS, "ms/s", idle * 1000)
