"""python -m bench: what the chain costs, as ratios to doing the same without it.

Wall-clock times of one machine say nothing elsewhere, so each row compares two things that were
run in turn in the same minute; the figure is the ratio of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from attrs import frozen

from bench import containers, egress
from bench.places import Direct, Through, open_places

Run = Callable[[], None]


def _nothing() -> None:
    """There is nothing to prepare."""


@frozen
class Row:
    name: str
    ours: Run
    theirs: Run
    rounds: int = 7
    before_ours: Run = _nothing  # neither is measured
    before_theirs: Run = _nothing


@frozen
class Result:
    name: str
    ratio: float
    ours: float
    theirs: float


def seconds(run: Run) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def measure(row: Row) -> Result:
    """Interleaved, so that a busy moment hits both."""
    ours, theirs = [], []
    for number in range(row.rounds + 1):
        row.before_ours()
        first = seconds(row.ours)
        row.before_theirs()
        second = seconds(row.theirs)
        if number:  # the first round warms up
            ours.append(first)
            theirs.append(second)
    a, b = statistics.median(ours), statistics.median(theirs)
    return Result(row.name, a / b, a, b)


def hostctl(*words: str) -> Run:
    program = Path(sys.executable).with_name("hostctl")
    return lambda: _quiet([str(program), *words])


def python(*words: str) -> Run:
    return lambda: _quiet([sys.executable, *words])


def _quiet(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rows(direct: Direct, through: Through) -> list[Row]:
    return [
        Row("hostctl --help / python -c pass", hostctl("--help"), python("-c", "pass"), 15),
        Row("hostctl version / python -c pass", hostctl("version"), python("-c", "pass"), 15),
        Row("ls-remote", through.ls_remote, direct.ls_remote, 15),
        Row("clone, small repository", through.clone_small, direct.clone_small, 9),
        Row("clone, 200 MB pack", through.clone_large, direct.clone_large, 3),
        Row("push, 64 MB", through.push_large, direct.push_large, 3),
        Row(
            "the gate's ls-remote, command floods / command idles",
            through.gate,
            through.gate,
            9,
            through.begin_flood,
            through.end_flood,
        ),
    ]


def _beside(part: ModuleType, about: str) -> list[Result]:
    """Rows that need programs of others, which we name and do not install."""
    if packages := part.missing():
        words = f"bench: for the rows about {about}: apt-get install {' '.join(packages)}"
        print(words, file=sys.stderr)
        return []
    return [Result(each.name, each.ratio, each.ours, each.theirs) for each in part.compare()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("bench: needs root, because sandboxes do", file=sys.stderr)
        return 7
    with open_places() as (direct, through):
        results = [measure(row) for row in rows(direct, through)]
        memory = through.memory()
    results += _beside(egress, "other hosts")
    results += _beside(containers, "containers")
    if arguments.json:
        print(json.dumps({"ratios": {r.name: round(r.ratio, 3) for r in results}, **memory}))
        return 0
    for result in results:
        print(f"{result.ratio:7.2f}x  {result.name}  ({result.ours:.3f} s / {result.theirs:.3f} s)")
    for name, value in memory.items():
        print(f"{value:8} kB  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
