"""python -m bench: what the chain costs, beside other programs in the same place.

Wall-clock times of one machine say nothing elsewhere, so every row is measured over all ways in
turn in the same minutes, and what counts are ratios of medians.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from bench import peers, saving, smoke, suite, table
from bench.figures import Book
from bench.machine import describe
from bench.parts.table import ALONE, STAGED
from bench.scale import FULL, QUICK, Scale
from bench.stage import CHAINS, open_stage


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
    measure(QUICK if arguments.quick else FULL, arguments.only, there, book)
    print(table.text(table.rows_table(book)), end="\n\n")
    print(table.text(table.targets_table(book)))
    kind = "some" if arguments.only else "quick" if arguments.quick else "full"
    print(f"saved: {saving.save(saving.now(kind, describe(), book))}")
    _say_missing(absent)
    return 1 if absent else 0


def measure(scale: Scale, only: Sequence[str], there: set[str], book: Book) -> None:
    """Chains and what else needs them, then the parts that stand alone."""
    rows = [row for row in suite.measures(scale) if _chosen(only, row.name)]
    staged = [name for name in STAGED if _chosen(only, name)]
    if rows or staged:
        chains = [name for name in CHAINS if name in there and rows]
        with open_stage(scale, chains) as stage:
            suite.run(stage, rows, book)
            for name in staged:
                begun = time.monotonic()
                STAGED[name](stage, book)
                suite.took(name, begun)
    for name in ALONE:
        if _chosen(only, name):
            begun = time.monotonic()
            ALONE[name](book, scale, there)
            suite.took(name, begun)


def _say_missing(absent: Sequence[peers.Peer]) -> None:
    for peer in absent:
        where = peer.package or " ".join(peer.pinned)
        print(f"bench: MISSING: {peer.name} ({where}) is not installed", file=sys.stderr)
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
