"""What `hostctl doctor` finds: one finding for each thing it examined, with its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

OK, NOTE, PROBLEM = "ok", "note", "problem"


class Finding(NamedTuple):
    """`fix` is a command to type. `repair` does the same, where that cannot do harm."""

    check: str
    level: str
    what: str
    fix: str = ""
    repair: Callable[[], None] | None = None

    def fields(self, repaired: bool) -> dict[str, object]:
        return {
            "check": self.check,
            "level": self.level,
            "what": self.what,
            "fix": self.fix or None,
            "safe": self.repair is not None,
            "fixed": repaired,
        }


Check = Callable[[], Iterable[Finding]]


def good(check: str, what: str) -> Finding:
    return Finding(check, OK, what)


def note(check: str, what: str, fix: str) -> Finding:
    return Finding(check, NOTE, what, fix)


def problem(check: str, what: str, fix: str, repair: Callable[[], None] | None = None) -> Finding:
    return Finding(check, PROBLEM, what, fix, repair)


def or_good(findings: Iterable[Finding], check: str, what: str) -> Iterator[Finding]:
    """The findings, or one that says that there is no problem."""
    found = list(findings)
    yield from found or [good(check, what)]
