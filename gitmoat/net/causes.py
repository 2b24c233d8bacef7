"""Why a connection, a request or a transfer ended before it was whole.

Decisions look at the cause; the words are for the log and the audit, and are made here.
"""

from enum import Enum, auto
from typing import Final

from attrs import frozen


class Cause(Enum):
    # The peer said its end in order, and nothing else: what it reads after that it drops.
    NOT_TAKEN = auto()
    LOST_BEFORE_ANSWER = auto()
    LOST = auto()
    CLIENT_LOST = auto()
    CLOSING = auto()  # it has been told our last words
    CUT = auto()  # by us, whatever for
    IDLE = auto()
    NO_ANSWER = auto()
    NO_REQUEST = auto()  # its rest did not come
    ENDED_EARLY = auto()  # a request, by its client
    MALFORMED = auto()
    TOO_FINE = auto()
    NOT_OPENED = auto()  # a tunnel, whose first octets were wrong or did not come
    REFUSED = auto()  # an answer, which is not passed on
    REQUEST_TOO_LARGE = auto()
    ANSWER_TOO_LARGE = auto()
    QUOTA = auto()
    SLOW = auto()  # the client, over a long time
    STOPPED = auto()  # what allowed it is over: the session, the policy, the time


_TEXTS: Final = {
    Cause.NOT_TAKEN: "connection was closed before an answer",
    Cause.LOST_BEFORE_ANSWER: "connection was lost before an answer",
    Cause.LOST: "connection was lost",
    Cause.CLIENT_LOST: "client was lost",
    Cause.CLOSING: "connection is closing",
    Cause.CUT: "connection was cut",
    Cause.IDLE: "connection was idle too long",
    Cause.NO_ANSWER: "no answer in time",
    Cause.NO_REQUEST: "request stopped coming",
    Cause.ENDED_EARLY: "request ended early",
    Cause.MALFORMED: "malformed",
    Cause.TOO_FINE: "answer is cut too finely",
    Cause.NOT_OPENED: "no ClientHello in time",
    Cause.REFUSED: "refused",
    Cause.REQUEST_TOO_LARGE: "request is too large",
    Cause.ANSWER_TOO_LARGE: "answer is too large",
    Cause.QUOTA: "quota is used up",
    Cause.SLOW: "client is too slow",
    Cause.STOPPED: "stopped",
}


@frozen
class Why:
    """A cause, and what else is known of it: `detail` only to be shown, `code` (one of netpolicy's)
    where whoever ended it has said which the client or the audit is told."""

    cause: Cause
    detail: str = ""
    code: str | None = None

    @property
    def text(self) -> str:
        return self.detail or _TEXTS[self.cause]
