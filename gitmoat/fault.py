"""What went wrong, as the user reads it: a stable code, what, why and what to do.

Without attrs: `hostctl --help` imports this, and it has to start fast.
"""

from __future__ import annotations

from collections.abc import Mapping


class Fault(Exception):
    """Never holds a secret, nor bytes of a request."""

    def __init__(self, code: str, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(code, what, why, fix)
        self.code = code
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.code}: {self.what}" + (f" ({self.why})" if self.why else "")

    def mapping(self) -> dict[str, object]:
        """As it is told to another program."""
        return {"code": self.code, "what": self.what, "why": self.why, "fix": self.fix}


def fault_of(told: object) -> Fault | None:
    """The fault that another program tells with this mapping; None when it is none."""
    if not isinstance(told, Mapping):
        return None
    said = [told.get(key, "") for key in ("code", "what", "why", "fix")]
    texts = [each for each in said if isinstance(each, str)]
    return Fault(*texts) if len(texts) == len(said) and texts[0] and texts[1] else None
