"""The owner's git while the command in the sandbox floods its sidecar, against when it idles."""

from __future__ import annotations

import subprocess
import time

from bench.chains.gitmoat import hostctl
from bench.chains.way import OURS
from bench.figures import Book
from bench.flooding import FLOOD
from tests.stage.command import command
from tests.stage.instance import Instance

IDLE = "idle command"
_BOX = "bench-gate"


def measure(instance: Instance, url: str, book: Book, rounds: int) -> None:
    hostctl(instance, "run", "-d", "--name", _BOX, "--repo", url, "--", "sleep", "infinity")
    try:
        for number in range(rounds + 1):
            flood = _begin(instance)
            flooded = _gate(instance)
            _end(instance, flood)
            idle = _gate(instance)
            if number:
                book.add("the gate's ls-remote during a flood", OURS, "s", flooded)
                book.add("the gate's ls-remote during a flood", IDLE, "s", idle)
    finally:
        hostctl(instance, "rm", "--force", _BOX)


def _gate(instance: Instance) -> float:
    begun = time.perf_counter()
    hostctl(instance, "git", _BOX, "--", "ls-remote", "origin")
    return time.perf_counter() - begun


def _begin(instance: Instance) -> subprocess.Popen[bytes]:
    flood = ["/usr/bin/python3", "-I", "-c", FLOOD, "500", "100000"]
    words = command(instance.root, "exec", _BOX)
    process = subprocess.Popen(
        [*words, "--", *flood],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _end(instance: Instance, flood: subprocess.Popen[bytes]) -> None:
    hostctl(instance, "exec", _BOX, "--", "/bin/sh", "-c", "kill $(cat flood.pid); rm flood.pid")
    flood.communicate()
