"""What the sidecar promises of an exchange, whatever it waits for when whatever happens.

Only the wire and the control socket are looked at: an exchange that is written anew keeps all of
this. A cell of KNOWN breaks exactly the promises its row names; a cell that keeps them is red until
its row is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.sidecar_world import Client
from tests.fakes.whole_sidecar import whole_world
from tests.wire.sidecar.net.cells import CELLS, IMPOSSIBLE, Cell, Event, Kind, Wait
from tests.wire.sidecar.net.known import KNOWN, Promise, known
from tests.wire.sidecar.net.namespace import Namespace, namespace
from tests.wire.sidecar.net.stage import ESTABLISHED, LINKS, POLICY, Does, Stage, links_of

GONE, CUT, SERVED, B101 = "gone", "cut", "served", "B101"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


def expected(cell: Cell) -> str:
    """What the client gets in the end."""
    match cell.event:
        case Event.RESET | Event.CLOSED:
            return GONE
        case Event.LOST:
            return _when_lost(cell)
        case Event.STOP:
            waits_for_link = cell.wait in (Wait.DIAL, Wait.HANDSHAKE)
            return B101 if cell.kind.git and waits_for_link else CUT
        case Event.LATE:
            told = cell.wait in (Wait.DIAL, Wait.HANDSHAKE, Wait.HEAD)
            return B101 if told and cell.kind is not Kind.DIRECT_TLS else CUT


def _when_lost(cell: Cell) -> str:
    if cell.wait in (Wait.DIAL, Wait.HANDSHAKE):
        return SERVED
    if cell.wait in (Wait.HEAD, Wait.BODY):
        return SERVED if cell.kind.sent_again else B101
    return CUT


def got(stage: Stage, client: Client, wanted: str) -> bool:
    match wanted:
        case "gone":
            return True
        case "cut":
            return client.over and b"gitmoat:" not in client.received
        case "served":
            if stage.kind is Kind.TUNNEL:
                return client.received.startswith(ESTABLISHED)
            return (b"begun" if stage.kind.tunnel else b"served") in client.received
        case _:
            answer = client.received
            return answer.startswith(b"HTTP/1.1 502 ") and f"({wanted})".encode() in answer


def broken(cell: Cell, stage: Stage) -> frozenset[Promise]:
    """Lets the event happen, and says which promises were not kept."""
    found: set[Promise] = set()
    client = stage.bring_to(cell.wait)
    before, sent, wanted = len(stage.taken), octets(stage), expected(cell)
    stage.happen(cell.event, cell.wait, client)
    if cell.event is Event.STOP:
        found |= _stops(cell, stage, client)
    if cell.wait is Wait.UNREAD and not client.over:
        stage.world.loop.addReader(client)
    stage.world.loop.settle()
    if wanted is SERVED:
        stage.world.loop.pass_time(6)
        if cell.wait is Wait.BODY:
            stage.send_rest(client)
            stage.world.loop.settle()
    if not got(stage, client, wanted):
        found.add(Promise.TOLD)
    if not all(each.gone for each in stage.taken[:before]):
        found.add(Promise.ENDED)
    if cell.event is not Event.STOP:
        client.close()
        stage.go_on()
    if len(stage.taken) - before != (wanted is SERVED):
        found.add(Promise.ONCE)
    if wanted is not SERVED and octets(stage) != sent:
        found.add(Promise.ONCE)
    if cell.event is not Event.STOP and not _has_its_links(stage):
        found.add(Promise.LINKS)
    return frozenset(found)


def octets(stage: Stage) -> int:
    return sum(each.octets for each in stage.taken)


def _stops(cell: Cell, stage: Stage, client: Client) -> set[Promise]:
    """Git is waited for, other hosts are not; then nothing is left."""
    waited = not stage.world.has_stopped()
    stage.world.loop.pass_time(31, step=1)
    found = set() if waited == cell.kind.git else {Promise.DRAINED}
    left = not stage.world.has_stopped() or stage.world.broker.open
    return found | {Promise.DRAINED} if left else found


def _has_its_links(stage: Stage) -> bool:
    """As many links as before, and no more, serve requests of this kind."""
    stage.does = Does.READ
    before = len(stage.taken)
    for _ in range(links_of(stage.kind) + 1):
        stage.ask()
    stage.world.loop.pass_time(3)
    return len(stage.taken) - before == links_of(stage.kind)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_an_exchange_ends_as_it_is_promised(tmp_path: Path, sandbox: Namespace, cell: Cell) -> None:
    with whole_world(tmp_path, listen=sandbox.listen, policy=POLICY, **LINKS) as world:
        stage = Stage(cell.kind, world, sandbox)
        try:
            found = broken(cell, stage)
        finally:
            stage.end()
    row = known(cell)
    if row is None:
        assert not found, f"not kept: {sorted(each.name for each in found)}"
    else:
        assert found == row.broken, (
            f"known as {sorted(each.name for each in row.broken)}, seen "
            f"{sorted(each.name for each in found)}: change or remove its row in KNOWN"
        )


def test_every_row_of_the_tables_stands_for_a_cell() -> None:
    for row in KNOWN:
        assert any(known(cell) is row for cell in CELLS), row.seen
    for _, _, _, reason in IMPOSSIBLE:
        assert reason
    assert len(set(CELLS)) == len(CELLS)
