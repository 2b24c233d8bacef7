"""A failure as its admin reads it: what with a stable code, why, and what to do."""

from __future__ import annotations

from errno import EACCES, ENOENT, EPERM
from typing import Any

from netpolicy.codes import CODES


class Failed(Exception):
    """Ends one operation; the admin socket turns it into the answer."""

    def __init__(
        self, code: str, what: str, *, why: str = "", fix: str = "", exit_code: int = 1
    ) -> None:
        super().__init__(f"{code}: {what}" + (f" ({why})" if why else ""))
        self.code = code
        self.what = what
        self.why = why
        self.fix = fix or CODES[code].fix
        self.exit_code = exit_code

    def answer(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "fix": self.fix,
            "exit": self.exit_code,
        }


class NotStarted(Failed):
    """No process began. `errno` is 0 where no call of the system failed."""

    def __init__(self, why: str, errno: int) -> None:
        super().__init__("R101", "could not start a process", why=why)
        self.errno = errno

    @property
    def not_found(self) -> bool:
        return self.errno == ENOENT

    @property
    def not_allowed(self) -> bool:
        return self.errno in (EACCES, EPERM)
