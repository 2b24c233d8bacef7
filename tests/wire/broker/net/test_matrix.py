"""Whatever a request waits for, and however it ends meanwhile: nothing of it is left.

Both ends are closed or answered, slots and turn are given back once, the credential is freed
without the collector, its outcome is recorded as often as this kind's is, and nothing is sent to
anybody after the end, also when what was waited for comes then.
"""

from __future__ import annotations

import time
from itertools import product

import pytest

from tests.fakes.reactor_tests import on_reactor
from tests.wire.broker.net.cells import ABSENT, ALL, Cell, Event, Kind, Wait, code, outcomes
from tests.wire.broker.net.held_broker import STILL, HeldBroker, without_collector
from tests.wire.broker.net.known import KNOWN, NONE, Known, Promises, known


async def settled(held: HeldBroker, expected: Promises) -> Promises:
    """What is broken once that is `expected`, or nothing is, or it does not change any more."""
    seen, since = held.broken(), time.monotonic()
    while time.monotonic() - since < STILL:
        if seen in (expected, NONE):
            await held.turns()
            if held.broken() == seen:
                break
        await held.pause()
        now = held.broken()
        if now != seen:
            seen, since = now, time.monotonic()
    return held.broken()


@pytest.mark.parametrize("cell", ALL, ids=str)
@on_reactor
async def test_nothing_is_left_of_a_request(held: HeldBroker, cell: Cell) -> None:
    row = known(cell)
    early, late = (NONE, NONE) if row is None else (row.early, row.late)
    with without_collector():
        await held.begin(cell.kind, cell.wait)
        await held.happen(cell.event)
        found_early = await settled(held, early)
        held.let_go()
        found_late = await settled(held, late - {"one outcome"})
    if held.outcomes() != outcomes(cell):
        found_late |= {"one outcome"}
    if row is None:
        assert not found_early, f"not kept while it waits: {sorted(found_early)}"
        assert not found_late, f"not kept once what it waited for has come: {sorted(found_late)}"
        assert held.told == code(cell)
    else:
        assert (found_early, found_late) == (early, late), (
            f"{row.finding} is not seen here as known.py has it: narrow its row, or remove it. "
            f"Broken now: {sorted(found_early)}, then {sorted(found_late)}"
        )


def test_the_matrix_is_whole() -> None:
    """Every kind meets every wait and every event, or a reason says why not."""
    met = {(cell.kind, cell.wait) for cell in ALL}
    assert met.isdisjoint(ABSENT) and met | set(ABSENT) == set(product(Kind, Wait))
    assert len(ALL) == len(met) * len(Event)


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: f"{row.finding}: {row.seen}")
def test_a_known_row_covers_cells_and_names_promises(row: Known) -> None:
    assert any(map(row.covers, ALL)) and row.early | row.late
