"""Which mutations come first where the time is not enough for all of them. Pure.

First those whose control or tests were changed recently, the newest change first; then the others,
in an order that each commit draws anew, so that none of them is always the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from math import inf

from attrs import field, frozen

from tests.mutations.table import Mutation

RECENT = 30  # commits
COMMIT = "commit "  # what begins a commit in the log that `history` reads


@frozen
class History:
    """`changed`: for files changed recently, how many commits ago; 0 means not committed yet."""

    commit: str = ""
    changed: Mapping[str, int] = field(factory=dict)

    def age(self, paths: Iterable[str]) -> float:
        return min((self.changed.get(path, inf) for path in paths), default=inf)


def history(log: str, status: str) -> History:
    """From `git log --name-only --format=commit %H` and `git status --porcelain -uall`."""
    changed = {line[3:].split(" -> ")[-1]: 0 for line in status.splitlines()}
    commits: list[str] = []
    for line in filter(None, log.splitlines()):
        if line.startswith(COMMIT):
            commits.append(line.removeprefix(COMMIT))
        else:
            changed.setdefault(line, len(commits))
    return History(commits[0] if commits else "", changed)


def in_order(mutations: Iterable[Mutation], known: History) -> list[Mutation]:
    """Without a history that is the order of the table."""
    return sorted(mutations, key=lambda mutation: _place(mutation, known))


def _place(mutation: Mutation, known: History) -> tuple[float, float, str]:
    control = known.age([mutation.file])
    tests = known.age(test.partition("::")[0] for test in mutation.tests)
    if not known.commit or min(control, tests) < inf:
        return control, tests, ""
    return inf, inf, hashlib.sha256(f"{known.commit} {mutation.name}".encode()).hexdigest()


def alone(mutation: Mutation) -> bool:
    """Whether its tests need the machine: sandboxes, rules, daemons; others share it with those."""
    return not all(test.startswith(("tests/unit/", "tests/wire/")) for test in mutation.tests)
