"""Rows over all chains: each way in turn, again and again, so that a busy moment hits them all."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from bench.chains.way import Way
from bench.figures import Book
from bench.rows import requests
from bench.rows.gits import SHAPES
from bench.rows.slow_ends import slow_reader, stalled
from bench.rows.transfers import Values
from bench.scale import Scale
from bench.stage import Stage


@frozen
class Measure:
    """One thing that each way does so often; the first time warms up, unless that counts too."""

    name: str
    run: Callable[[Stage, Way], Values]
    rounds: int
    cold: bool = False
    small: bool = False  # so quick that a disk, or a handshake, shows: measured in more ways


def measures(scale: Scale) -> list[Measure]:
    few, some, many = scale.few, scale.some, scale.many
    return [
        Measure("download", lambda stage, way: stage.transfers.download(way), few),
        Measure("upload", lambda stage, way: stage.transfers.upload(way), few),
        Measure(
            "latency",
            lambda stage, way: requests.latency(way, stage.scale.requests),
            some,
            small=True,
        ),
        Measure(
            "concurrency", lambda s, way: requests.concurrent(way, s.scale.seconds), few, small=True
        ),
        Measure("ls-remote", lambda stage, way: stage.gits.ls_remote(way), many),
        *(Measure(name, partial(_clone, name), _rounds(name, few, many)) for name in SHAPES),
        Measure("push", lambda stage, way: stage.gits.push(way), few),
        Measure("slow reader", partial(_slow_end, slow_reader), 0, cold=True),
        Measure("stalled upstream", partial(_slow_end, stalled), 0, cold=True),
    ]


def _clone(name: str, stage: Stage, way: Way) -> Values:
    return stage.gits.clone(way, name)


def _slow_end(row: Callable[[Way, Path, int], Values], stage: Stage, way: Way) -> Values:
    if not way.hops:
        return {}
    return row(way, stage.transfers.directory / "fetch", stage.scale.seconds)


def _rounds(name: str, few: int, many: int) -> int:
    return many if name == "clone small" else few


def run(stage: Stage, chosen: Sequence[Measure], book: Book) -> list[str]:
    """What failed, in words; a way that fails has no figure in that row."""
    failed: list[str] = []
    for measure in chosen:
        begun = time.monotonic()
        ways = [*stage.ways, *stage.small] if measure.small else list(stage.ways)
        for number in range(measure.rounds + 1):
            for way in list(ways):
                try:
                    values = measure.run(stage, way)
                except (RuntimeError, subprocess.TimeoutExpired) as problem:
                    failed.append(f"{measure.name} over {way.name}: {problem}")
                    print(f"bench: FAILED: {failed[-1]}", file=sys.stderr, flush=True)
                    ways.remove(way)
                    continue
                if number or measure.cold:
                    book.add_all(way.name, values)
        took(measure.name, begun)
    return failed


def took(name: str, begun: float) -> None:
    seconds = time.monotonic() - begun
    print(f"bench: {name} took {seconds:.0f} s", file=sys.stderr, flush=True)
