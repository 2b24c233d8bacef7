"""python -m bench: what the chain costs, beside other programs in the same place.

Wall-clock times of one machine say nothing elsewhere, so every row is measured over all ways in
turn in the same minutes, and what counts are ratios of medians.
"""

from __future__ import annotations

import argparse
import os
import sys

from bench import saving, suite, table
from bench.figures import Book
from bench.machine import describe
from bench.stage import PEERS, QUICK, Scale, open_stage


def main() -> int:
    arguments = _arguments()
    if os.geteuid() != 0:
        print("bench: needs root, because sandboxes do", file=sys.stderr)
        return 7
    rows = [row for row in suite.measures(arguments.quick) if _chosen(arguments.only, row.name)]
    peers = [name for name in PEERS if name not in arguments.without]
    book = Book()
    shapes = any(row.name.startswith(("clone", "push", "ls-remote")) for row in rows)
    with open_stage(QUICK if arguments.quick else Scale(), peers, shapes) as stage:
        suite.run(stage, rows, book)
    print(table.text(table.rows_table(book)), end="\n\n")
    print(table.text(table.targets_table(book)))
    kind = "some" if arguments.only else "quick" if arguments.quick else "full"
    print(f"saved: {saving.save(saving.now(kind, describe(), book))}")
    return 0


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
