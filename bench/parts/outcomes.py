"""How operations went beside a neighbour, by what that one did."""

from __future__ import annotations

from attrs import define, field, frozen

from bench.figures import Book, percentile

OPERATIONS = ("exec", "run", "fetch")
_ENOUGH = 3  # failures: what came after them would say the same, and take as long


@frozen
class Outcome:
    seconds: float
    problem: str = ""


@define(eq=False)
class Outcomes:
    _found: dict[str, dict[str, list[Outcome]]] = field(factory=dict)

    def add(self, operation: str, beside: str, outcome: Outcome) -> None:
        self._found.setdefault(operation, {}).setdefault(beside, []).append(outcome)

    def problems(self, operation: str, beside: str) -> list[str]:
        found = self._found.get(operation, {}).get(beside, [])
        return [each.problem for each in found if each.problem]

    def hopeless(self, operation: str, beside: str) -> bool:
        return len(self.problems(operation, beside)) >= _ENOUGH

    def write(self, book: Book) -> None:
        """What failed counts with the time that it took to fail."""
        for operation, ways in self._found.items():
            row = row_of(operation)
            for beside, outcomes in ways.items():
                seconds = [each.seconds for each in outcomes]
                for value in seconds:
                    book.add(row, beside, "s", value)
                failed = len(self.problems(operation, beside)) / len(outcomes)
                book.add(f"{row}: p99", beside, "s", percentile(seconds, 0.99))
                book.add(f"{row}: failed", beside, "%", 100 * failed)

    def failures(self) -> list[str]:
        return [
            f"{operation} beside {beside}: {len(problems)} of {len(outcomes)}: {problems[0]}"
            for operation, ways in self._found.items()
            for beside, outcomes in ways.items()
            if (problems := self.problems(operation, beside))
        ]


def row_of(operation: str) -> str:
    return f"{operation} beside a neighbour"
