"""Promises of the net that are not kept today, and what is seen instead."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from tests.wire.sidecar.net.cells import Cell, Event, Kind, Wait


class Promise(Enum):
    TOLD = "the client gets its answer, or the end of its connection"
    ENDED = "the broker sees the end of the exchange"
    ONCE = "nothing is sent to the broker after the event, and nothing twice"
    LINKS = "the link is given back exactly once"
    DRAINED = "a stop waits for git, for nothing else, and not for ever"


@frozen
class Known:
    kinds: frozenset[Kind]
    waits: frozenset[Wait]
    events: frozenset[Event]
    broken: frozenset[Promise]
    seen: str


_TLS = frozenset({Kind.DIRECT_TLS})
_HTTP = frozenset(Kind) - _TLS
_PLAIN = frozenset(kind for kind in Kind if not kind.tunnel)
_BODIES = frozenset(kind for kind in Kind if kind.has_body)
_LINK = frozenset({Wait.DIAL, Wait.HANDSHAKE})
_LEAVES = frozenset({Event.RESET, Event.CLOSED})

KNOWN: tuple[Known, ...] = (
    Known(
        _HTTP,
        _LINK,
        frozenset({Event.CLOSED}),
        frozenset({Promise.ONCE, Promise.LINKS}),
        "a close is taken for a half-close: the request goes to the broker when a link comes, and "
        "holds it until the broker answers",
    ),
    Known(
        _BODIES,
        _LINK,
        frozenset({Event.RESET}),
        frozenset({Promise.ONCE}),
        "a connection with a body that is not read yet is not looked at: the request goes to the "
        "broker when a link comes",
    ),
    Known(
        _TLS,
        _LINK,
        _LEAVES,
        frozenset({Promise.ONCE, Promise.LINKS}),
        "behind its ClientHello the connection is not looked at: the tunnel is asked for when a "
        "link comes, and holds it until the broker answers",
    ),
    Known(
        _PLAIN,
        frozenset({Wait.HEAD, Wait.ANSWER}),
        frozenset({Event.CLOSED}),
        frozenset({Promise.ENDED, Promise.LINKS}),
        "a close is taken for a half-close: the exchange holds its link until the answer is whole",
    ),
    Known(
        frozenset({Kind.TUNNEL}),
        frozenset({Wait.HEAD}),
        frozenset({Event.CLOSED}),
        frozenset({Promise.ENDED, Promise.LINKS}),
        "a close is taken for a half-close: the link is held until the broker answers",
    ),
    Known(
        _TLS,
        frozenset({Wait.HEAD}),
        _LEAVES,
        frozenset({Promise.ENDED, Promise.LINKS}),
        "behind its ClientHello the connection is not looked at until the broker answers",
    ),
    Known(
        frozenset({Kind.TUNNEL}),
        frozenset({Wait.HEAD}),
        frozenset({Event.LATE}),
        frozenset({Promise.ONCE, Promise.TOLD}),
        "the CONNECT is sent again after 90 s of silence, and the client is cut 5 s later",
    ),
    Known(
        _TLS,
        frozenset({Wait.HEAD}),
        frozenset({Event.LATE}),
        frozenset({Promise.LINKS, Promise.ONCE, Promise.TOLD}),
        "the CONNECT is sent again after 90 s of silence, and everybody waits 90 s more",
    ),
)


def known(cell: Cell) -> Known | None:
    for row in KNOWN:
        if cell.kind in row.kinds and cell.wait in row.waits and cell.event in row.events:
            return row
    return None
