"""Connections to the broker that hostd makes for a sidecar: one for each DIAL, or word that not."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from gitmoat.messages.sidecar import DIAL, Connection, DialFailed, Order, parse_order
from hostd.sidecars.sidecar_process import Dials, SidecarProcess
from tests.fakes.reactor_tests import on_reactor
from tests.waiting import PATIENCE


class Link:
    """Keeps what hostd tells its sidecar; a descriptor is kept open as a sidecar would."""

    def __init__(self) -> None:
        self.told: Deferred[Order] = Deferred()
        self.sockets: list[socket.socket] = []

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self.sockets += [socket.socket(fileno=socket.dup(each)) for each in descriptors]
        self.told.callback(parse_order(data, len(descriptors)))


async def dial(address: tuple[str, int]) -> tuple[Order, Link]:
    from twisted.internet import reactor

    link, nobody = Link(), cast(Any, object())
    sidecar = SidecarProcess(reactor, "a1", nobody, Dials(reactor, address))
    sidecar._link = cast(Any, link)
    sidecar._message(DIAL, [])
    return await link.told.addTimeout(PATIENCE, reactor), link


@on_reactor
async def test_a_sidecar_gets_a_connection_for_its_dial() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        order, link = await dial(listener.getsockname())
        assert order == Connection()
        (connected,) = link.sockets
        with connected:
            assert connected.getpeername() == listener.getsockname()
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize("host", ["a..b", "127.0.0.1"], ids=["no name", "nobody listens"])
@on_reactor
async def test_a_sidecar_is_told_of_a_broker_that_cannot_be_reached(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    order, _ = await dial((host, port))
    assert order == DialFailed()
