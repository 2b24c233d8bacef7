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


KNOWN: tuple[Known, ...] = ()


def known(cell: Cell) -> Known | None:
    for row in KNOWN:
        if cell.kind in row.kinds and cell.wait in row.waits and cell.event in row.events:
            return row
    return None
