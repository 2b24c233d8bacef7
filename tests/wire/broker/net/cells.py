"""Each kind of request, each thing it can wait for, each thing that can end it meanwhile.

All three together are the matrix, without what cannot be: `ABSENT` has a reason for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import product

from attrs import frozen


class Kind(Enum):
    ADVERTISEMENT = "advertisement"
    FETCH = "fetch"
    PUSH = "push"
    PROBE = "probe"  # the push of nothing that git sends before a large one
    PLAIN = "plain"  # a POST over plain HTTP to another host
    TUNNEL = "tunnel"


class Wait(Enum):
    RATE = "rate"  # of its session
    COMMANDS = "commands"  # of a push, before anything is decided
    TURN = "turn"
    DISK = "disk"  # the sync of the record of what was allowed
    CREDENTIAL = "credential"
    NAME = "name"  # to be resolved
    CONNECTION = "connection"  # to be accepted by the upstream
    HANDSHAKE = "handshake"  # TLS with the upstream
    HEAD = "head"  # of the upstream's answer, when the whole request was sent
    CLIENT_BODY = "client's body"  # the rest of it; nothing was answered
    UPSTREAM_BODY = "upstream's body"  # the rest of it; the whole request was sent
    BOTH = "both bodies"


class Event(Enum):
    REVOKED = "revoked"
    RESCOPED = "rescoped"  # to a policy that allows nothing
    TIMED_OUT = "timed out"
    RESET = "client reset"
    CLOSED = "client closed"  # in order, with TLS's own word for it


GIT = (Kind.ADVERTISEMENT, Kind.FETCH, Kind.PUSH)
PUSHES = (Kind.PUSH, Kind.PROBE)
EGRESS = (Kind.PLAIN, Kind.TUNNEL)
_DECIDED_AT_ONCE = "only a push's body is looked into before it is decided"
_PROBE = "a probe is answered by the broker itself once its commands, which are none, are read"
_NO_BODY = "a GET has no body"
_REFUSED = "a connection to another host that is over its session's rate is refused at once"
_NOT_QUEUED = "other hosts have no common limit: a connection enters its session's or is refused"
_SYNCED_AT_ONCE = "the reactor itself syncs this record: nothing can happen meanwhile"
_NO_CREDENTIAL = "no credential of ours goes to other hosts"
_NO_TLS = "the broker speaks no TLS with other hosts: it is the client's own, or there is none"
_BOTH_AT_ONCE = "a tunnel has no messages: once its ClientHello has come, both ends are waited for"

ABSENT: dict[tuple[Kind, Wait], str] = {
    **{(kind, Wait.COMMANDS): _DECIDED_AT_ONCE for kind in Kind if kind not in PUSHES},
    **{(Kind.PROBE, wait): _PROBE for wait in Wait if wait not in (Wait.RATE, Wait.COMMANDS)},
    (Kind.ADVERTISEMENT, Wait.CLIENT_BODY): _NO_BODY,
    (Kind.ADVERTISEMENT, Wait.BOTH): _NO_BODY,
    **{(kind, Wait.RATE): _REFUSED for kind in EGRESS},
    **{(kind, Wait.TURN): _NOT_QUEUED for kind in EGRESS},
    **{(kind, Wait.DISK): _SYNCED_AT_ONCE for kind in EGRESS},
    **{(kind, Wait.CREDENTIAL): _NO_CREDENTIAL for kind in EGRESS},
    **{(kind, Wait.HANDSHAKE): _NO_TLS for kind in EGRESS},
    (Kind.TUNNEL, Wait.HEAD): _BOTH_AT_ONCE,
    (Kind.TUNNEL, Wait.UPSTREAM_BODY): _BOTH_AT_ONCE,
}


@frozen
class Cell:
    kind: Kind
    wait: Wait
    event: Event

    def __str__(self) -> str:
        return f"{self.kind.value}, {self.wait.value}, {self.event.value}"


def cells() -> Iterator[Cell]:
    for kind, wait, event in product(Kind, Wait, Event):
        if (kind, wait) not in ABSENT:
            yield Cell(kind, wait, event)


ALL = tuple(cells())
_LEAVES = (Event.RESET, Event.CLOSED)


def outcomes(cell: Cell) -> int:
    """How often its end is recorded: of git once it is allowed, of egress once it is joined."""
    joined = cell.wait in (Wait.HEAD, Wait.CLIENT_BODY, Wait.UPSTREAM_BODY, Wait.BOTH)
    if cell.kind in EGRESS:
        return 1 if joined else 0
    return 0 if cell.wait in (Wait.RATE, Wait.COMMANDS, Wait.TURN) else 1


def code(cell: Cell) -> str:
    """What the client is told; nothing when its connection is only cut."""
    kind, wait, event = cell.kind, cell.wait, cell.event
    if event in _LEAVES:
        return ""
    if kind in EGRESS and wait not in (Wait.NAME, Wait.CONNECTION):
        return "E107" if (wait, event) == (Wait.HEAD, Event.TIMED_OUT) else ""
    if event is Event.TIMED_OUT and wait in (Wait.CLIENT_BODY, Wait.BOTH):
        return "G306" if wait is Wait.CLIENT_BODY else ""
    if event is not Event.TIMED_OUT and wait in (Wait.HEAD, Wait.CLIENT_BODY):
        return ""
    codes = {
        Event.REVOKED: "S101",
        Event.RESCOPED: "E101" if kind in EGRESS else "G101",
        Event.TIMED_OUT: "E107" if kind in EGRESS else "U101",
    }
    return "B106" if (wait, event) == (Wait.TURN, Event.TIMED_OUT) else codes[event]
