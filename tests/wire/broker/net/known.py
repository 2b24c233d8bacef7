"""Cells of the matrix in which a promise is not kept today, and which ones.

A cell that has become right fails its test until it is taken out of its row here.
"""

from __future__ import annotations

from attrs import frozen

from tests.wire.broker.net.cells import Cell, Event, Kind, Wait

Promises = frozenset[str]
NONE: Promises = frozenset()


@frozen
class Known:
    """`early`: what is broken while the wait goes on; `late`: once it is over."""

    finding: str
    seen: str
    kinds: tuple[Kind, ...]
    waits: tuple[Wait, ...]
    events: tuple[Event, ...]
    early: Promises
    late: Promises

    def covers(self, cell: Cell) -> bool:
        return cell.kind in self.kinds and cell.wait in self.waits and cell.event in self.events


# A reset is seen, and a sidecar whose client has left resets. An end in order is a record of TLS
# behind the body.
_LEAVES = (Event.CLOSED,)
_POSTS = (Kind.FETCH, Kind.PUSH)
_DIALS = frozenset({"credential", "upstream's end"})
_RUNS_ON = frozenset({"client's end", "registry", "slots", "turn"})
_SENT = frozenset({"nothing sent"})
_NO_TURN = frozenset({"turn"})  # other hosts have none
_OUTCOME = frozenset({"one outcome"})

KNOWN = (
    Known(
        "F15",
        "Nobody reads while it waits for its turn, so nobody sees its client close: it goes up.",
        _POSTS,
        (Wait.TURN,),
        _LEAVES,
        _RUNS_ON,
        _SENT | _OUTCOME,
    ),
    Known(
        "F9",
        "Nobody reads while it waits, so nobody sees its client close: it goes up.",
        _POSTS,
        (Wait.DISK, Wait.CREDENTIAL),
        _LEAVES,
        _RUNS_ON,
        _SENT,
    ),
    Known(
        "F9",
        "Nobody reads while the name is looked up, so nobody sees its client close: it goes up.",
        _POSTS,
        (Wait.NAME,),
        _LEAVES,
        _RUNS_ON | {"credential"},
        _SENT,
    ),
    Known(
        "F9",
        "Nobody reads while the server is connected to, so nobody sees its client close.",
        _POSTS,
        (Wait.CONNECTION, Wait.HANDSHAKE),
        _LEAVES,
        _RUNS_ON | _DIALS,
        _RUNS_ON | _DIALS | _OUTCOME,
    ),
    Known(
        "F9",
        "A plain request's body is not read while its name is looked up: it goes up.",
        (Kind.PLAIN,),
        (Wait.NAME,),
        _LEAVES,
        _RUNS_ON - _NO_TURN,
        _SENT | _OUTCOME,
    ),
    Known(
        "F9",
        "A plain request's body is not read while its host is connected to: it keeps its slot.",
        (Kind.PLAIN,),
        (Wait.CONNECTION,),
        _LEAVES,
        _RUNS_ON - _NO_TURN | {"upstream's end"},
        _RUNS_ON - _NO_TURN | {"upstream's end"},
    ),
    Known(
        "F11",
        "A tunnel whose client has ended is held for 30 s when the other end stays silent.",
        (Kind.TUNNEL,),
        (Wait.CLIENT_BODY, Wait.BOTH),
        (Event.CLOSED,),
        frozenset({"registry", "slots", "upstream's end"}),
        frozenset({"registry", "slots", "upstream's end"}) | _OUTCOME,
    ),
)


def known(cell: Cell) -> Known | None:
    rows = [row for row in KNOWN if row.covers(cell)]
    assert len(rows) <= 1, f"{cell} stands in two rows"
    return rows[0] if rows else None
