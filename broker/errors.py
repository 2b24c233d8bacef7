"""The errors a person reads: what, why and how to mend it, under a stable code."""

from __future__ import annotations


class Problem(Exception):
    """One clear error; its text never holds a secret or bytes of a request."""

    def __init__(self, code: str, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(f"{code} {what}")
        self.code = code
        self.what = what
        self.why = why
        self.fix = fix

    def mapping(self) -> dict[str, str]:
        return {"code": self.code, "what": self.what, "why": self.why, "fix": self.fix}


class Misconfigured(Problem):
    """A configuration that is refused whole: the file, the key path, and what to write instead."""

    def __init__(self, file: str, key: str, why: str, hint: str) -> None:
        place = f"{file}: {key}" if key else file
        super().__init__("B104", "broker configuration invalid", f"{place}: {why}", hint)
        self.file = file
        self.key = key
        self.hint = hint


class Unavailable(Problem):
    """Something the broker needs for this operation is not there now."""
