"""A failure as its admin reads it: what with a stable code, why, and what to do."""

from __future__ import annotations

from errno import EACCES, ENOENT, EPERM
from typing import Any

from attrs import field, frozen

from gitmoat.fault import Fault
from netpolicy.codes import CODES


@frozen
class Failed(Fault):
    """Ends one operation; the admin socket turns it into the answer."""

    exit_code: int = field(default=1, kw_only=True)

    def answer(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "fix": self.fix or _usual_fix(self.code),
            "exit": self.exit_code,
        }


def _usual_fix(code: str) -> str:
    """A broker of another version may have codes that we do not know."""
    return CODES[code].fix if code in CODES else ""


@frozen
class NotStarted(Failed):
    """No process began. `errno` is 0 where no call of the system failed."""

    errno: int = field(default=0, kw_only=True)

    @classmethod
    def because(cls, why: str, errno: int) -> NotStarted:
        return cls("R101", "could not start a process", why, errno=errno)

    @property
    def not_found(self) -> bool:
        return self.errno == ENOENT

    @property
    def not_allowed(self) -> bool:
        return self.errno in (EACCES, EPERM)
