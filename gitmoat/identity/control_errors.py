"""What can be wrong with a control socket or a directory of ours, each with its code."""

from __future__ import annotations


class ControlSocketError(Exception):
    """A control socket cannot be used; `what` is wrong and how to `fix` it."""

    code = "C101"

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class ControlSocketUnsafe(ControlSocketError):
    """The path, its owner or the server is not the expected one."""


class ControlSocketDenied(ControlSocketError):
    """We may not reach the socket."""

    code = "C102"


class ControlSocketAbsent(ControlSocketError):
    """Nobody listens there."""

    code = "C103"


class ControlSocketBusy(ControlSocketError):
    """Somebody already listens there."""

    code = "C104"
