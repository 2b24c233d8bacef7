"""hostd's own connection to the broker: kept for a moment, and never in the way."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nacl.signing import SigningKey

from gitmoat.identity.keyfile import public_text
from gitmoat.identity.tls_options import PinnedServer
from gitmoat.net.http.ends import Incoming, ServerConnection
from gitmoat.net.transport.accepting import Acceptor
from gitmoat.net.transport.tls import Tls
from hostd.broker_link.broker_client import BrokerClient
from hostd.broker_link.host_keys import Keys
from hostd.failures import Failed
from tests.fakes.reactor_tests import on_reactor

HOST, BROKER = SigningKey(bytes([1] * 32)), SigningKey(bytes([2] * 32))


class Broker:
    """Answers every request; while `closing`, a connection that has served one is closed in order
    when the next request comes, as a broker does that stops."""

    def __init__(self) -> None:
        from twisted.internet import reactor

        self.loop: Any = reactor
        self.closing = False
        self.cutting = False
        self.meanwhile: Callable[[], None] = lambda: None  # before it answers
        self.connections: list[ServerConnection] = []
        self.asked: list[int] = []  # by the number of the connection
        self._tls = PinnedServer(BROKER.encode(), lambda key: key == HOST.verify_key.encode())
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self._acceptor = Acceptor(self.loop, listener, 10, self._accepted)
        self._acceptor.start()
        keys = Keys(HOST, (public_text(BROKER),))
        self.keys, self.client = keys, BrokerClient(self.loop, self.address, keys)

    def _accepted(self, sock: socket.socket) -> None:
        number = len(self.connections)
        made = ServerConnection(self.loop, lambda each: self._requested(number, each), secure=True)
        self.connections.append(made)
        Tls(self.loop, sock, made, self._tls.connection()).start()

    def _requested(self, number: int, incoming: Incoming) -> None:
        if self.closing and number in self.asked:
            self.asked.append(number)
            transport: Any = self.connections[number].transport
            transport.loseConnection()
            return
        self.asked.append(number)
        if self.cutting:
            incoming.abort()
            return
        self.meanwhile()
        incoming.reply(200, (), b'{"well": true}')

    def close(self) -> None:
        self._acceptor.close()
        self.client._drop()
        for each in self.connections:
            each.abort()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


@on_reactor
async def test_questions_that_follow_each_other_share_a_connection(broker: Broker) -> None:
    for _ in range(3):
        assert await broker.client.get("/host/health") == {"well": True}
    assert broker.asked == [0, 0, 0]


@on_reactor
async def test_a_broker_that_closes_the_kept_connection_is_asked_again(broker: Broker) -> None:
    await broker.client.post("/host/grant", b"first")
    broker.closing = True
    assert await broker.client.post("/host/grant", b"second") == {"well": True}
    assert broker.asked == [0, 0, 1]


@on_reactor
async def test_what_a_broker_may_have_done_is_not_asked_again(broker: Broker) -> None:
    await broker.client.post("/host/grant", b"first")
    broker.cutting = True
    with pytest.raises(Failed, match="connection was lost"):
        await broker.client.post("/host/grant", b"second")
    assert broker.asked == [0, 0]


@on_reactor
async def test_a_kept_connection_is_not_used_under_other_keys(broker: Broker) -> None:
    await broker.client.get("/host/health")
    broker.keys.pins = (public_text(SigningKey(bytes([3] * 32))),)
    with pytest.raises(Failed) as caught:
        await broker.client.get("/host/health")
    assert (caught.value.code, broker.asked) == ("B102", [0])


@on_reactor
async def test_a_host_that_the_broker_does_not_know_is_told_so(broker: Broker) -> None:
    broker.keys.host = SigningKey(bytes([3] * 32))
    for asking in (broker.client.get("/host/health"), broker.client.post("/host/grant", b"{}")):
        with pytest.raises(Failed) as caught:
            await asking
        assert (caught.value.code, caught.value.exit_code) == ("B107", 5)
        assert "hostctl host enrol" in caught.value.fix
    assert broker.asked == []


@on_reactor
async def test_where_nothing_listens_the_address_is_named(broker: Broker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        client = BrokerClient(broker.loop, taken.getsockname(), broker.keys)
        problem = await client.problem()
        assert problem is not None and problem.code == "B101"
        assert f"nothing answers at 127.0.0.1:{taken.getsockname()[1]}" in problem.why


@on_reactor
async def test_nor_is_one_whose_keys_changed_while_it_was_asked(broker: Broker) -> None:
    def rotate() -> None:
        broker.keys.pins = (public_text(SigningKey(bytes([3] * 32))),)

    broker.meanwhile = rotate
    await broker.client.get("/host/health")
    with pytest.raises(Failed):
        await broker.client.get("/host/health")
    assert broker.asked == [0]


@on_reactor
async def test_whether_the_broker_is_well_is_asked_over_a_new_connection(broker: Broker) -> None:
    await broker.client.get("/host/health")
    assert await broker.client.healthy()
    assert broker.asked == [0, 1]
