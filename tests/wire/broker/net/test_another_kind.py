"""A kind that a test registers: the exchange serves, refuses, records and cuts it like its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred

from broker.kinds import KINDS
from gitmoat.wire.http.heads import NoBody
from tests.fakes.broker_world import Reply
from tests.fakes.internet import EXTRA
from tests.fakes.ping_kind import Ping
from tests.fakes.reactor_tests import on_reactor
from tests.wire.broker.net.held_broker import HeldBroker

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"


@pytest.fixture
def pinged(tmp_path: Path) -> Iterator[HeldBroker]:
    from twisted.internet import reactor

    broker = HeldBroker(reactor, tmp_path)
    broker.world.kinds = (*KINDS, Ping)
    pytest_twisted.blockon(ensureDeferred(broker.open()))
    yield broker
    pytest_twisted.blockon(ensureDeferred(broker.close()))


def ping(held: HeldBroker, host: str = "web.example") -> Reply:
    return held.sidecar.begin("GET", f"/ping/{host}", EXTRA, NoBody())[1]


def decisions(held: HeldBroker) -> list[tuple[object, ...]]:
    found = held.world.audit("git.decision")
    return [(each["decision"], each["op"], each.get("code")) for each in found]


def given_back(held: HeldBroker) -> bool:
    admission, session = held.context.admission, held.session
    slots = session.egress.running, admission.running, admission.waiting
    return slots == (0, 0, 0) and not len(session.running)


async def asked(held: HeldBroker) -> None:
    await held.until(lambda: held.internet.servers and held.internet.servers[0].heard, "the ping")


@on_reactor
async def test_another_kind_is_served_and_recorded(pinged: HeldBroker) -> None:
    reply = ping(pinged)
    await asked(pinged)
    assert decisions(pinged) == [("allow", "ping", None)]
    pinged.internet.servers[0].say(ANSWER)
    await reply.done
    assert (reply.status, reply.data) == (200, b"pong")
    (outcome,) = pinged.world.audit("git.outcome")
    assert (outcome["op"], outcome["bytes_down"]) == ("ping", 4)
    assert given_back(pinged)


@on_reactor
async def test_another_kind_is_refused_by_policy(pinged: HeldBroker) -> None:
    reply = await ping(pinged, "other.example").done
    assert (reply.status, reply.json()["code"]) == (403, "E101")
    assert decisions(pinged) == [("deny", "ping", "E101")]
    assert pinged.names.asked == 0 and given_back(pinged)


@on_reactor
async def test_another_kind_waits_for_its_turn_and_its_record(pinged: HeldBroker) -> None:
    pinged.turn.hold()
    pinged.disk.hold()
    ping(pinged)
    await pinged.until(lambda: pinged.context.admission.waiting == 1, "that it waits for its turn")
    pinged.turn.let_go()
    await pinged.until(lambda: pinged.disk.wanted, "that it waits for the disk")
    assert pinged.names.asked == 0
    pinged.disk.let_go()
    await asked(pinged)


@pytest.mark.parametrize("waits", ["name", "answer"])
@on_reactor
async def test_another_kind_is_cut_by_a_revocation(pinged: HeldBroker, waits: str) -> None:
    pinged.names.held = waits == "name"
    reply = ping(pinged)
    if waits == "name":
        await pinged.until(lambda: pinged.names.waiting, "that its name is looked up")
    else:
        await asked(pinged)
    pinged.context.grants.revoke([pinged.session], "test")
    assert given_back(pinged)
    await reply.done
    if waits == "name":
        assert reply.json()["code"] == "S101"
        pinged.names.let_go()
        await pinged.turns()
        assert pinged.internet.connections == 0
    else:
        await pinged.until(lambda: pinged.internet.servers[0].lost, "the end of its connection")
        assert reply.error
    (outcome,) = pinged.world.audit("git.outcome")
    assert outcome["code"] == "S101"
