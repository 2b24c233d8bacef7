"""What went wrong, as whoever asked reads it: a code that stays, what, why and what to do."""

from __future__ import annotations

from attrs import frozen


@frozen
class Fault(Exception):
    """Never holds a secret, nor bytes of a request."""

    code: str
    what: str
    why: str = ""
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.what}" + (f" ({self.why})" if self.why else "")
