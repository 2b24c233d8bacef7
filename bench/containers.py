"""What a sandbox in a container costs to start, against Docker alone doing the same two starts."""

from __future__ import annotations

import shutil
import statistics
import time

from bench.egress import Compared
from hostctl.demo_stage import Stage, close_stage, open_stage
from hostctl.output import Output
from tests.docker.engines import TestEngine, image

_ROUNDS = 7


def missing() -> list[str]:
    return [] if shutil.which("dockerd") else ["docker.io", "busybox-static"]


def compare() -> list[Compared]:
    engine = TestEngine()
    engine.start()
    try:
        engine.make_images()
        settings = f'[docker]\nsocket = "{engine.socket}"\n'
        stage = open_stage(Output(quiet=True), keep=False, hostd=settings)
        try:
            return [_starts(engine, stage)]
        finally:
            close_stage(stage)
    finally:
        engine.remove()


def _starts(engine: TestEngine, stage: Stage) -> Compared:
    pairs = []
    for _ in range(_ROUNDS + 1):
        begun = time.perf_counter()
        stage.hostctl(
            "run", "--rm", "--image", image("debian"), "--", "true", timeout=120
        ).expect_success("run")
        between = time.perf_counter()
        for _ in ("holder", "sandbox"):
            engine.docker(
                "run", "--rm", "--network=none", "--entrypoint=/bin/true", image("debian")
            )
        pairs.append((between - begun, time.perf_counter() - between))
    ours, theirs = zip(*pairs[1:], strict=True)  # the first round warms up
    name = "run in a container / docker run, twice"
    return Compared(name, statistics.median(ours), statistics.median(theirs))
