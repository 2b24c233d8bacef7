"""The proxy port of a whole sidecar: tunnels over links that die, tunnels that nobody waits for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.net.http.incoming import Incoming
from netpolicy.format.document import parse_policy
from tests.fakes.sidecar_requests import EGRESS, opens
from tests.fakes.sidecar_scope import POLICY_TEXT
from tests.fakes.sidecar_world import Client, World
from tests.fakes.whole_sidecar import whole_world

CONNECT = b"CONNECT files.example:443 HTTP/1.1\r\nHost: files.example:443\r\n\r\n"
OPENED = b"HTTP/1.1 200 "


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with whole_world(tmp_path, policy=parse_policy(POLICY_TEXT + EGRESS)) as made:
        yield made


def never(incoming: Incoming) -> None:
    """The other host takes its time."""


def connect(world: World) -> Client:
    return world.request(world.proxy_port, CONNECT)


def heard(world: World, client: Client, wanted: bytes) -> None:
    world.loop.turn_until(lambda: wanted in client.received)


def test_tunnels_that_nobody_waits_for_cost_others_no_time(world: World) -> None:
    """Each takes a link with it. The clock stands still: a back-off would never end."""
    world.start()
    world.broker.handler = never
    for _ in range(8):
        world.broker.heads.clear()
        client = connect(world)
        world.loop.turn_until(lambda: bool(world.broker.heads))
        client.vanish()
        world.loop.settle()
    world.broker.handler = opens
    client = connect(world)
    world.loop.turn_until(lambda: client.received.startswith(OPENED))
    client.close()


def test_a_broker_that_dies_with_all_its_links_costs_a_tunnel_nothing(world: World) -> None:
    world.start()
    died: list[Incoming] = []

    def all_die(incoming: Incoming) -> None:
        if died:
            opens(incoming)
        else:
            died.append(incoming)
            world.broker.kill()

    world.broker.handler = all_die
    client = connect(world)
    world.loop.turn_until(lambda: bool(died))
    world.loop.pass_time(5)
    assert client.received.startswith(OPENED)
    client.close()


def test_a_client_that_goes_meanwhile_is_not_asked_for_again(world: World) -> None:
    world.start()
    world.broker.handler = Incoming.abort
    client = connect(world)
    world.loop.turn_until(lambda: len(world.broker.heads) == 1)
    world.loop.settle()
    client.vanish()
    world.loop.settle()
    world.loop.pass_time(5)
    assert len(world.broker.heads) == 1


def test_who_asks_more_often_than_the_policy_says_does_not_reach_the_broker_with_it(
    tmp_path: Path,
) -> None:
    text = POLICY_TEXT + EGRESS + "[limits]\negress_per_minute = 3\n"
    with whole_world(tmp_path, policy=parse_policy(text)) as world:
        world.start()
        world.broker.handler = opens
        for number in range(12):
            client = connect(world)
            wanted = OPENED if number < 3 else b"(E108)"
            heard(world, client, wanted)
            client.vanish()
            world.loop.settle()
        assert [head.method for head in world.broker.heads].count(b"CONNECT") == 3
        world.loop.pass_time(20)
        client = connect(world)
        world.loop.turn_until(lambda: client.received.startswith(OPENED))
        client.close()


def test_with_all_links_for_other_hosts_in_use_the_next_one_is_told_so_at_once(
    tmp_path: Path,
) -> None:
    policy = parse_policy(POLICY_TEXT + EGRESS)
    with whole_world(tmp_path, policy=policy, dial_cap=2, egress_cap=1) as world:
        world.start()
        world.broker.handler = opens
        first = connect(world)
        heard(world, first, OPENED)
        second = connect(world)
        world.loop.settle()  # the clock stands still
        assert b"(E108)" in second.received
        world.loop.pass_time(3)
        (report,) = [json.loads(raw) for raw in world.broker.reports]
        assert (report["code"], report["to"]) == ("E108", "files.example:443")
        first.vanish()
        world.loop.settle()
        world.loop.pass_time(3)
        third = connect(world)
        heard(world, third, OPENED)
        third.close()
        second.close()


def test_a_refusal_of_the_broker_with_two_codes_is_no_answer(world: World) -> None:
    world.start()
    codes = ((b"Gitmoat-Code", b"E101"), (b"Gitmoat-Code", b"E102"))
    world.broker.handler = lambda incoming: incoming.reply(403, codes)
    client = connect(world)
    heard(world, client, b"B101")
    client.close()
