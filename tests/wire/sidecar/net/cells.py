"""The net's axes and its tables: what is asked, what it waits for, what happens then.

Every combination is a cell. `impossible` gives a reason for those that cannot be; KNOWN names those
whose promise is not kept today, with what is seen instead.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class Kind(Enum):
    HELPER_REFS = "refs, helper"
    HELPER_FETCH = "fetch, helper"
    HELPER_PUSH = "push, helper"
    REFS = "refs"
    FETCH = "fetch"
    PUSH = "push"
    GET = "plain GET"
    POST = "plain POST"
    DIRECT_GET = "GET at a synthetic address"
    DIRECT_POST = "POST at a synthetic address"
    TUNNEL = "CONNECT"
    DIRECT_TLS = "TLS at a synthetic address"

    @property
    def git(self) -> bool:
        return self in _GIT

    @property
    def tunnel(self) -> bool:
        return self in (Kind.TUNNEL, Kind.DIRECT_TLS)

    @property
    def has_body(self) -> bool:
        return self in _BODIES

    @property
    def sent_again(self) -> bool:
        """Whether it is sent once more when its link was lost before an answer."""
        return (self.git and self not in (Kind.PUSH, Kind.HELPER_PUSH)) or self.tunnel


_GIT = frozenset(
    {Kind.HELPER_REFS, Kind.HELPER_FETCH, Kind.HELPER_PUSH, Kind.REFS, Kind.FETCH, Kind.PUSH}
)
_BODIES = frozenset(
    {
        Kind.HELPER_FETCH,
        Kind.HELPER_PUSH,
        Kind.FETCH,
        Kind.PUSH,
        Kind.POST,
        Kind.DIRECT_POST,
    }
)


class Wait(Enum):
    """What the exchange waits for when the event comes."""

    HELLO = "the client's ClientHello"
    DIAL = "hostd, asked for a link"
    HANDSHAKE = "the handshake of a link"
    BODY = "the rest of the client's body"
    HEAD = "the broker's head"
    ANSWER = "the rest of the broker's answer"
    BOTH = "both directions of a tunnel"
    UNREAD = "the client, which does not read"


class Event(Enum):
    RESET = "the client's connection is reset"
    CLOSED = "the client closes its connection"
    LOST = "the link is lost"
    STOP = "hostd says stop"
    LATE = "the time is over"


@frozen
class Cell:
    kind: Kind
    wait: Wait
    event: Event

    def __str__(self) -> str:
        return f"{self.kind.value} - {self.wait.value} - {self.event.value}"


def impossible(cell: Cell) -> str | None:
    """Why there is no such cell."""
    for kinds, waits, events, reason in IMPOSSIBLE:
        if cell.kind in kinds and cell.wait in waits and cell.event in events:
            return reason
    return None


_KINDS, _WAITS, _EVENTS = frozenset(Kind), frozenset(Wait), frozenset(Event)
_TUNNELS = frozenset({Kind.TUNNEL, Kind.DIRECT_TLS})

IMPOSSIBLE: tuple[tuple[frozenset[Kind], frozenset[Wait], frozenset[Event], str], ...] = (
    (_KINDS - _BODIES, frozenset({Wait.BODY}), _EVENTS, "its request has no body"),
    (_KINDS - _TUNNELS, frozenset({Wait.HELLO, Wait.BOTH}), _EVENTS, "it is no tunnel"),
    (_TUNNELS, frozenset({Wait.ANSWER}), _EVENTS, "a tunnel's answer is its head"),
    (
        frozenset({Kind.DIRECT_TLS}),
        frozenset({Wait.HELLO}),
        frozenset({Event.LOST}),
        "no link is asked for before the name is known",
    ),
    (
        _KINDS,
        frozenset({Wait.UNREAD}),
        frozenset({Event.CLOSED}),
        "a close with octets that were not read is a reset",
    ),
)

CELLS = tuple(
    cell
    for kind in Kind
    for wait in Wait
    for event in Event
    if impossible(cell := Cell(kind, wait, event)) is None
)
