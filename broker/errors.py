"""What goes wrong in the broker, where who catches it has to tell it from any other fault."""

from __future__ import annotations

from gitmoat.fault import Fault


class Misconfigured(Fault):
    """A configuration that is refused whole: the file, the key path, and what to write instead."""

    def __init__(self, file: str, key: str, why: str, hint: str) -> None:
        place = f"{file}: {key}" if key else file
        super().__init__("B104", "broker configuration invalid", f"{place}: {why}", hint)
        self.file = file
        self.key = key


class Unavailable(Fault):
    """Something the broker needs for this operation is not there now."""
