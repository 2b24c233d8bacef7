"""python -m bench: what the chain costs, beside other programs in the same place.

Wall-clock times of one machine say nothing elsewhere, so every row is measured over all ways in
turn in the same minutes, and what counts are ratios of medians.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from bench import peers, saving, suite, table
from bench.figures import Book
from bench.machine import describe
from bench.stage import CHAINS, QUICK, Scale, open_stage


def main() -> int:
    arguments = _arguments()
    if os.geteuid() != 0:
        print("bench: needs root, because sandboxes do", file=sys.stderr)
        return 7
    absent = peers.missing(arguments.without)
    _say_missing(absent)
    if any(peer.needed for peer in absent):
        return 1
    book = Book()
    _measure(arguments, book)
    print(table.text(table.rows_table(book)), end="\n\n")
    print(table.text(table.targets_table(book)))
    kind = "some" if arguments.only else "quick" if arguments.quick else "full"
    print(f"saved: {saving.save(saving.now(kind, describe(), book))}")
    _say_missing(absent)
    return 1 if absent else 0


def _measure(arguments: argparse.Namespace, book: Book) -> None:
    rows = [row for row in suite.measures(arguments.quick) if _chosen(arguments.only, row.name)]
    there = peers.available(arguments.without)
    shapes = any(row.name.startswith(("clone", "push", "ls-remote")) for row in rows)
    chains = [name for name in CHAINS if name in there]
    with open_stage(QUICK if arguments.quick else Scale(), chains, shapes) as stage:
        suite.run(stage, rows, book)


def _say_missing(absent: Sequence[peers.Peer]) -> None:
    for peer in absent:
        where = peer.package or " ".join(peer.pinned)
        print(f"bench: MISSING: {peer.name} ({where}) is not installed", file=sys.stderr)
    if absent:
        names = " ".join(peer.name for peer in absent)
        print(f"bench: this run fails; --without {names} leaves them out", file=sys.stderr)


def _chosen(only: list[str], name: str) -> bool:
    return not only or any(word in name for word in only)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: four minutes")
    some = "only rows with these words in their name"
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help=some)
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="leave out peers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
