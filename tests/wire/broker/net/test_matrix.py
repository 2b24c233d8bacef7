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


async def settled(held: HeldBroker) -> frozenset[str]:
    """What is still broken when nothing is, or when that does not change any more."""
    seen, since = held.broken(), time.monotonic()
    while time.monotonic() - since < STILL:
        if not seen:
            await held.turns()
            if not held.broken():
                break
        await held.pause()
        now = held.broken()
        if now != seen:
            seen, since = now, time.monotonic()
    return held.broken()


@pytest.mark.parametrize("cell", ALL, ids=str)
@on_reactor
async def test_nothing_is_left_of_a_request(held: HeldBroker, cell: Cell) -> None:
    with without_collector():
        await held.begin(cell.kind, cell.wait)
        await held.happen(cell.event)
        early = await settled(held)
        held.let_go()
        late = await settled(held)
    assert not early, f"not kept while it waits: {sorted(early)}"
    assert not late, f"not kept once what it waited for has come: {sorted(late)}"
    assert held.outcomes() == outcomes(cell)
    assert held.told == code(cell)


def test_the_matrix_is_whole() -> None:
    """Every kind meets every wait and every event, or a reason says why not."""
    met = {(cell.kind, cell.wait) for cell in ALL}
    assert met.isdisjoint(ABSENT) and met | set(ABSENT) == set(product(Kind, Wait))
    assert len(ALL) == len(met) * len(Event)
