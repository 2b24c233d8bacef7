"""A minute of the suite for CI: ratios against nginx in the same run, and none worse by half.

bench/smoke.json holds the ratios of a good day. A machine that is busy with something else can
spoil one row, so what failed is measured once more before it counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from bench import suite
from bench.chains.way import OURS
from bench.figures import Book
from bench.scale import SMOKE
from bench.stage import Stage, open_stage

SAVED = Path(__file__).with_name("smoke.json")
_PEER = "nginx"
_ROWS = ("download", "upload", "latency")
_SLIP = 2.0


@frozen
class Watched:
    """`measure` makes it; `more` is better, or less."""

    measure: str
    row: str
    more: bool


WATCHED = (
    Watched("download", "download", more=True),
    Watched("download", "download: CPU", more=False),
    Watched("upload", "upload", more=True),
    Watched("upload", "upload: CPU", more=False),
    Watched("latency", "request: CPU", more=False),
)


def ratios(book: Book) -> dict[str, float]:
    found = {
        each.row: book.rows[each.row].ratio(OURS, _PEER)
        for each in WATCHED
        if each.row in book.rows
    }
    return {row: ratio for row, ratio in found.items() if ratio is not None}


def slipped(now: Mapping[str, float], saved: Mapping[str, float]) -> list[Watched]:
    """Those that are worse than saved by a factor of two, or were not measured at all."""
    return [each for each in WATCHED if not _holds(each, now.get(each.row), saved[each.row])]


def _holds(watched: Watched, now: float | None, saved: float) -> bool:
    if now is None:
        return False
    return now * _SLIP >= saved if watched.more else now <= saved * _SLIP


def main(save: bool = False) -> int:
    with open_stage(SMOKE, [_PEER], shapes=False, smoke=True) as stage:
        found = _measure(stage, _ROWS)
        if save:
            SAVED.write_text(json.dumps(_rounded(found), indent=1) + "\n")
            print(f"bench: saved {SAVED.name}: {_rounded(found)}")
            return 0
        saved = json.loads(SAVED.read_text())
        again = slipped(found, saved)
        if again:
            print(f"bench: once more: {', '.join(each.row for each in again)}", file=sys.stderr)
            found |= _measure(stage, sorted({each.measure for each in again}))
    bad = slipped(found, saved)
    for each in WATCHED:
        word = "SLIPPED" if each in bad else "ok"
        value = found.get(each.row, float("nan"))
        print(f"{word:8} {each.row} / {_PEER}: {value:.2f}, saved {saved[each.row]:.2f}")
    return 1 if bad else 0


def _measure(stage: Stage, names: Sequence[str]) -> dict[str, float]:
    book = Book()
    ways = [way for way in stage.ways if way.name in (_PEER, OURS)]
    chosen = [each for each in suite.measures(stage.scale) if each.name in names]
    suite.run(evolve(stage, ways=ways), chosen, book)
    return ratios(book)


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    return {row: float(f"{ratio:.3g}") for row, ratio in found.items()}


if __name__ == "__main__":
    sys.exit(main(save=sys.argv[1:] == ["--save"]))
