"""python -m bench: what the chain costs, beside other programs in the same place.

Wall-clock times of one machine say nothing elsewhere, so every row is measured over all ways in
turn in the same minutes, and what counts are ratios of medians.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from subprocess import SubprocessError

from bench import peers, saving, smoke, suite, table
from bench.figures import Book
from bench.machine import describe
from bench.parts.table import ALONE, STAGED
from bench.scale import FULL, QUICK, Scale
from bench.stage import CHAINS, open_stage
from tests.stage.command import CommandFailed

_SHAPED = ("clone", "push", "ls-remote", "flood")  # what needs real repositories


def main() -> int:
    arguments = _arguments()
    if os.geteuid() != 0:
        print("bench: needs root, because sandboxes do", file=sys.stderr)
        return 7
    if arguments.smoke:
        return smoke.main()
    absent = peers.missing(arguments.without)
    _say_missing(absent)
    if any(peer.needed for peer in absent):
        return 1
    book = Book()
    there = peers.available(arguments.without)
    whole, failed = False, []
    try:
        failed = measure(QUICK if arguments.quick else FULL, arguments.only, there, book)
        whole = True
    finally:  # half a run is better than none
        _show(arguments, book, whole)
    _say_missing(absent)
    for problem in failed:
        print(f"bench: FAILED: {problem}", file=sys.stderr)
    return 1 if absent or failed else 0


def _show(arguments: argparse.Namespace, book: Book, whole: bool) -> None:
    print(table.text(table.rows_table(book)), end="\n\n")
    print(table.text(table.targets_table(book)))
    print(f"saved: {_save(arguments, book, whole).relative_to(peers.ROOT)}")


def _save(arguments: argparse.Namespace, book: Book, whole: bool) -> Path:
    kind = "quick" if arguments.quick else "full"
    if arguments.only or not whole:
        kind = "some"
    return saving.save(saving.now(kind, describe(), book))


def measure(scale: Scale, only: Sequence[str], there: set[str], book: Book) -> list[str]:
    """Chains and what else needs them, then the parts that stand alone; what failed."""
    failed: list[str] = []
    rows = [row for row in suite.measures(scale) if _chosen(only, row.name)]
    staged = [name for name in STAGED if _chosen(only, name)]
    if rows or staged:
        chains = [name for name in CHAINS if name in there and rows]
        shapes = any(name.startswith(_SHAPED) for name in [*(row.name for row in rows), *staged])
        small = any(row.small for row in rows)
        with open_stage(scale, chains, shapes, small) as stage:
            failed += stage.failed + suite.run(stage, rows, book)
            for name in staged:
                failed += _part(name, partial(STAGED[name], stage, book))
    for name in ALONE:
        if _chosen(only, name):
            failed += _part(name, partial(ALONE[name], book, scale, there))
    return failed


def _part(name: str, run: Callable[[], None]) -> list[str]:
    """What failed; the others go on."""
    begun = time.monotonic()
    try:
        run()
    except (RuntimeError, AssertionError, CommandFailed, OSError, SubprocessError) as problem:
        print(f"bench: FAILED: {name}: {problem}", file=sys.stderr, flush=True)
        return [f"{name}: {problem}"]
    suite.took(name, begun)
    return []


def _say_missing(absent: Sequence[peers.Peer]) -> None:
    for peer in absent:
        print(f"bench: MISSING: {peer.name} ({peer.package}) is not installed", file=sys.stderr)
    if absent:
        names = " ".join(peer.name for peer in absent)
        print(f"bench: this run fails; --without {names} leaves them out", file=sys.stderr)


def _chosen(only: Sequence[str], name: str) -> bool:
    return not only or any(word in name for word in only)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: four minutes")
    parser.add_argument("--smoke", action="store_true", help="a minute: has anything slipped by 2?")
    some = "only rows with these words in their name"
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help=some)
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="leave out peers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
