"""What a sandbox in a container costs to start, against Docker alone doing the same two starts."""

from __future__ import annotations

import time

from bench.chains.way import OURS
from bench.figures import Book
from tests.docker.engines import TestEngine, image
from tests.stage.gitmoat import Gitmoat, opened

DOCKER = "docker, twice"


def measure(book: Book, rounds: int) -> None:
    engine = TestEngine()
    engine.start()
    try:
        engine.make_images()
        with opened(engine.settings()) as gitmoat:
            for number in range(rounds + 1):
                ours, theirs = _once(engine, gitmoat)
                if number:
                    book.add("sandbox in a container", OURS, "s", ours)
                    book.add("sandbox in a container", DOCKER, "s", theirs)
    finally:
        engine.remove()


def _once(engine: TestEngine, gitmoat: Gitmoat) -> tuple[float, float]:
    begun = time.perf_counter()
    words = ("run", "--rm", "--image", image("debian"), "--", "true")
    gitmoat.hostctl(*words, timeout=120).expect_success("run")
    between = time.perf_counter()
    for _ in ("holder", "sandbox"):
        engine.docker("run", "--rm", "--network=none", "--entrypoint=/bin/true", image("debian"))
    return between - begun, time.perf_counter() - between
