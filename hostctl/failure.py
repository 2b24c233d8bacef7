"""An error as the user reads it: what happened with its stable code, why, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping

from gitmoat.fault import Fault, fault_of

FAILED = 1
USAGE = 2
DENIED = 3
NOT_FOUND = 4
UNREACHABLE = 5
NOT_ENFORCED = 6
NOT_PERMITTED = 7
INVALID = 8
TIMED_OUT = 124
RUNTIME_FAILED = 125
NOT_EXECUTABLE = 126
NO_PROGRAM = 127
INTERRUPTED = 130
READER_LEFT = 141

_EXITS = {
    "B101": UNREACHABLE,
    "B102": UNREACHABLE,
    "B104": INVALID,
    "B107": UNREACHABLE,
    "C101": NOT_PERMITTED,
    "C102": NOT_PERMITTED,
    "C103": UNREACHABLE,
    "C105": USAGE,
    "C106": TIMED_OUT,
    "C110": NOT_FOUND,
    "R103": NOT_FOUND,
    "U107": NOT_FOUND,
    "U105": INVALID,
}
_FAMILY_EXITS = {"G": DENIED, "H": DENIED, "S": DENIED, "E": DENIED, "P": INVALID}
_TEXT_LIMIT = 2000


class Failure(Fault):
    """Ends the command with one error."""

    def __init__(
        self, code: str, what: str, why: str = "", fix: str = "", exit_code: int | None = None
    ) -> None:
        super().__init__(code, what, why, fix)
        self.exit_code = exit_code_of(code) if exit_code is None else exit_code

    def lines(self) -> list[str]:
        told = self.mapping()
        first = f"error: {told['what']} [{self.code}]"
        return [first, f"why: {told['why']}", f"fix: {told['fix']}"]

    def mapping(self) -> dict[str, object]:
        """What is missing is taken from the table of codes; each value is one line."""
        text, fix = _known(self.code)
        whole = {"what": self.what, "why": self.why or text, "fix": self.fix or fix}
        printable = {key: plain(value) for key, value in whole.items()}
        return {"code": self.code, **printable, "exit": self.exit_code}


class NotReached(Failure):
    """The daemon does not run, or this user may not ask it: it got no request."""


class Interrupted(BaseException):
    """A signal ended the command; what was begun is being undone."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number


def _known(code: str) -> tuple[str, str]:
    try:
        from gitmoat.codes import CODES
    except ImportError:  # an incomplete installation has errors of the same form
        return "hostctl is not completely installed", "install it again"
    known = CODES.get(code)
    return (known.text, known.fix) if known else ("the daemon did not say", "see its log file")


def before_command(failure: Failure) -> Failure:
    """Of `run` and `exec`: ends with none of the codes that the command itself may end with, as
    docker's do. A misspelt command line stays 2."""
    if failure.exit_code not in (USAGE, NOT_EXECUTABLE, NO_PROGRAM):
        failure.exit_code = RUNTIME_FAILED
    return failure


def usage(what: str, fix: str) -> Failure:
    return Failure("C105", what, "the command line is incomplete or was not understood", fix)


def exit_code_of(code: str) -> int:
    return _EXITS.get(code) or _FAMILY_EXITS.get(code[:1], FAILED)


def plain(text: object) -> str:
    """One printable line; a terminal never gets control bytes out of a daemon's message."""
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return line[:_TEXT_LIMIT].strip()


def failure_from(error: object) -> Failure:
    """A daemon's `{"code", "what", "why", "fix", "exit"}`; anything else is a failure too."""
    told = fault_of(error)
    if told is None or not isinstance(error, Mapping):
        return Failure("C107", "the daemon's answer was not understood", fix="see its log file")
    code, what, why, fix = map(plain, (told.code, told.what, told.why, told.fix))
    exit_code = error.get("exit")
    given = isinstance(exit_code, int) and 0 < exit_code < 256
    return Failure(code, what, why, fix, exit_code if given else None)
