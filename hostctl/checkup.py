"""What `hostctl doctor` finds: one finding for each thing it looked at, with its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

OK, NOTE, PROBLEM = "ok", "note", "problem"


class Finding(NamedTuple):
    """`fix` is a command to type. `mend` does the same, where that can harm nobody."""

    check: str
    level: str
    what: str
    fix: str = ""
    mend: Callable[[], None] | None = None

    def fields(self, mended: bool) -> dict[str, object]:
        return {
            "check": self.check,
            "level": self.level,
            "what": self.what,
            "fix": self.fix or None,
            "safe": self.mend is not None,
            "fixed": mended,
        }


Check = Callable[[], Iterable[Finding]]


def good(check: str, what: str) -> Finding:
    return Finding(check, OK, what)


def note(check: str, what: str, fix: str) -> Finding:
    return Finding(check, NOTE, what, fix)


def problem(check: str, what: str, fix: str, mend: Callable[[], None] | None = None) -> Finding:
    return Finding(check, PROBLEM, what, fix, mend)


def or_good(findings: Iterable[Finding], check: str, what: str) -> Iterator[Finding]:
    """The findings, or the good news that there are none."""
    found = list(findings)
    yield from found or [good(check, what)]
