"""python -m tests.mutations [--seconds N] [WORD...]: weaken one control after the other.

A test must fail for each. Without words all of them; with words those whose name has one of them.
With --seconds (0: no limit) none is begun after that time; those of files that were changed
recently come first. Needs root, as the tests do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from attrs import define, field

from tests.mutations.choosing import COMMIT, RECENT, History, alone, history, in_order
from tests.mutations.runner import ROOT, Result, Verdict, applied, copied
from tests.mutations.table import Mutation
from tests.mutations.verified import ALL


@define(eq=False)
class Runs:
    """What was found so far; no mutation is begun after the deadline."""

    deadline: float
    verdicts: Counter[Verdict] = field(factory=Counter)

    def run(self, mutations: Sequence[Mutation]) -> None:
        """One after the other, in a tree of their own."""
        if not mutations:
            return
        with copied() as tree:
            for mutation in mutations:
                if time.monotonic() >= self.deadline:
                    return
                result = tree.run(mutation)
                self.verdicts[result.verdict] += 1
                show(result, mutation.name)

    def end(self) -> None:
        self.deadline = 0.0


def show(result: Result, name: str) -> None:
    lines = [f"{result.verdict.value:<10} {result.seconds:5.0f} s  {name}"]
    if result.verdict is not Verdict.KILLED:
        lines += [f"    {line}" for line in result.output.splitlines()[-25:]]
    print("\n".join(lines), flush=True)


def known() -> History:
    """What git knows of recent changes; nothing where this tree is not a clone."""
    # A clone's oldest commit would name every file of the tree as changed in it.
    log = ("-c", "log.showRoot=false", "log", f"-{RECENT}", "--name-only", f"--format={COMMIT}%H")
    status = ("status", "--porcelain", "-uall")
    try:
        return history(_git(*log), _git(*status))
    except (OSError, subprocess.CalledProcessError):
        return History()


def _git(*words: str) -> str:
    command = ["git", "-c", "core.quotePath=false", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("words", nargs="*", metavar="WORD")
    args = parser.parse_args(words)
    named = [
        each for each in ALL if not args.words or any(word in each.name for word in args.words)
    ]
    for mutation in named:
        applied(mutation, (ROOT / mutation.file).read_text(encoding="utf-8"))
    chosen = in_order(named, known()) if args.seconds else named
    runs = Runs(time.monotonic() + args.seconds if args.seconds else float("inf"))
    lanes = [[each for each in chosen if alone(each) is lane] for lane in (True, False)]
    with ThreadPoolExecutor(len(lanes)) as workers:
        try:
            list(workers.map(runs.run, lanes))
        except KeyboardInterrupt:  # the terminal has told it to every pytest as well
            runs.end()
            raise
    found = runs.verdicts
    print(
        f"{found[Verdict.KILLED]} killed, {found[Verdict.SURVIVED]} survived, "
        f"{found[Verdict.NONE]} without a verdict, {len(chosen) - found.total()} left out"
    )
    return 0 if found[Verdict.KILLED] and found[Verdict.KILLED] == found.total() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
