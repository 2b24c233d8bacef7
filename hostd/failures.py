"""A failure as the admin reads it: what failed, with a stable code, why, and what to do."""

from __future__ import annotations

from errno import EACCES, ENOENT, EPERM

from gitmoat.codes import CODES
from gitmoat.fault import Fault


class Failed(Fault):
    """Ends one operation; the admin socket turns it into the answer."""

    def __init__(
        self, code: str, what: str, why: str = "", fix: str = "", *, exit_code: int = 1
    ) -> None:
        # The code may come from a broker of another version, and be unknown here.
        super().__init__(code, what, why, fix or (CODES[code].fix if code in CODES else ""))
        self.exit_code = exit_code

    def mapping(self) -> dict[str, object]:
        return {**super().mapping(), "exit": self.exit_code}


class NotStarted(Failed):
    """No process began. `errno` is 0 where no system call failed."""

    def __init__(self, why: str, errno: int) -> None:
        super().__init__("R101", "could not start a process", why)
        self.errno = errno

    @property
    def not_found(self) -> bool:
        return self.errno == ENOENT

    @property
    def not_allowed(self) -> bool:
        return self.errno in (EACCES, EPERM)
