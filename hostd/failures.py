"""A failure as its admin reads it: what with a stable code, why, and what to do."""

from __future__ import annotations

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
