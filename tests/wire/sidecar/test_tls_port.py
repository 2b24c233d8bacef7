"""The port of TLS at synthetic addresses, at one that stands for a host."""

from __future__ import annotations

import gc
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.wire.hostname import parse_host
from hostd.verify.attempts.network import client_hello
from netpolicy.format.document import parse_policy
from netpolicy.policy import Tier
from sidecar.budgets import EgressPace
from sidecar.kind import Source
from sidecar.kinds.egress import TUNNEL
from sidecar.port.clients import Door, tls_port
from tests.fakes.sidecar_requests import EGRESS, opens
from tests.fakes.sidecar_scope import POLICY_TEXT
from tests.fakes.sidecar_world import Client, World
from tests.fakes.whole_sidecar import whole_world

_SAID = 60_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with whole_world(tmp_path, policy=parse_policy(POLICY_TEXT + EGRESS)) as made:
        yield made


def connect(world: World) -> Client:
    context = world.service._context
    pace = EgressPace(world.loop, context.scope.policy.limits)
    name = parse_host(b"files.example")
    source = Source("tls", Tier.UNTRUSTED, 61003)
    serve = tls_port(Door(context, source, pace, (TUNNEL,), lambda address: name))
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = Client(world.loop, server.getsockname()[1])
        serve(server.accept()[0], lambda: None)
    return client


def test_what_came_with_the_hello_is_not_kept_as_long_as_the_tunnel(world: World) -> None:
    world.start()
    world.broker.handler = opens
    client = connect(world)
    said = client_hello("files.example") + bytes(_SAID)
    tracemalloc.start()
    try:
        client.send(said)
        world.loop.turn_until(lambda: world.broker.heard.endswith(bytes(_SAID)))
        gc.collect()
        traces = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, "*/gitmoat/wire/clienthello.py")]
        )
    finally:
        tracemalloc.stop()
    assert max((each.size for each in traces.statistics("lineno")), default=0) < _SAID
    client.vanish()
    world.loop.settle()
