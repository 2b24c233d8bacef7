"""python -m tests.mutations [WORD...]: weaken one control after the other; a test must fail.

Without words all of them; with words those whose name has one of them. Needs root, as the tests do.
"""

from __future__ import annotations

import sys

from tests.mutations.runner import Result, run, run_unmutated
from tests.mutations.table import Mutation
from tests.mutations.verified import ALL


def chosen(words: list[str]) -> list[Mutation]:
    return [each for each in ALL if not words or any(word in each.name for word in words)]


def show(word: str, result: Result, name: str) -> None:
    print(f"{word:<8} {result.seconds:5.0f} s  {name}", flush=True)


def show_output(result: Result) -> None:
    print("\n".join(f"    {line}" for line in result.output.splitlines()[-25:]), flush=True)


def survives(mutation: Mutation) -> bool:
    result = run(mutation)
    show("killed" if result.killed else "SURVIVED", result, mutation.name)
    if not result.killed:
        show_output(result)
    return not result.killed


def main() -> int:
    mutations = chosen(sys.argv[1:])
    before = run_unmutated(mutations)
    if before.code != 0:
        show("FAILED", before, "the tests, without any mutation")
        show_output(before)
        return 1
    show("passed", before, "the tests, without any mutation")
    survivors = sum(map(survives, mutations))
    print(f"{len(mutations) - survivors} killed, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
