"""Hosts outside, on loopback, and a sidecar's connections to them through a broker."""

from __future__ import annotations

import time
from ipaddress import ip_address
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.config.values import Address as Place
from broker.sessions.running import Permit
from broker.upstream.other_hosts import Checked, OtherHosts
from broker.upstream.route import Route
from gitmoat.net.http.ends import ClientConnection, Outgoing
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.heads import Framing, NoBody, format_request, framing_headers
from gitmoat.wire.http.proxying import format_connect
from netpolicy.egress_rules.addresses import Address
from tests.fakes.broker_world import ID, Reply, Sidecar, World
from tests.fakes.clienthello import message, records, sni
from tests.waiting import PATIENCE

WEB = Destination(HostName("web.example"), 443)
HELLO = records(message(sni(b"web.example")))
EXTRA = ((b"Gitmoat-Request-Id", ID.encode()),)


class Outside(Protocol):
    """A server outside, as raw octets."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost = False

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def connectionLost(self, reason: Failure | None = None) -> None:
        self.lost = True

    def say(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)

    def end(self) -> None:
        transport: Any = self.transport
        transport.loseConnection()


@implementer(IHalfCloseableProtocol)
class Lingering(Outside):
    """One that does not end because its peer has."""

    def readConnectionLost(self) -> None:
        """It could go on."""

    def writeConnectionLost(self) -> None:
        """It never half-closes."""


@define(eq=False)
class Names:
    """A resolver whose every name is on loopback; it keeps what it was asked."""

    asked: list[str] = field(factory=list)

    def resolve(self, host: HostName, session: str) -> Deferred[list[Address]]:
        self.asked.append(host.text)
        return succeed([ip_address("203.0.113.5")])


@frozen(eq=False)
class LoopbackChecked(Checked):
    """What is found and checked is then this machine."""

    async def find(self, permit: Permit) -> list[Address]:
        await super().find(permit)
        return [ip_address("127.0.0.1")]


@define(eq=False)
class LoopbackHosts(OtherHosts):
    """The real one, but that all addresses are this machine's."""

    port: int = 0

    def route(self, to: Destination, allow_private: bool, idle: float, tunnelled: bool) -> Route:
        made = super().route(to, allow_private, idle, tunnelled)
        checked = LoopbackChecked(self, to.host, allow_private)
        return evolve(made, place=Place(to.host.text, self.port), addresses=checked)


class Internet:
    def __init__(self, world: World, names: object = None, server: type[Outside] = Outside) -> None:
        self.world = world
        self._server = server
        self.servers: list[Outside] = []
        self.names: Any = names if names is not None else Names()

    @property
    def connections(self) -> int:
        return len(self.servers)

    @property
    def octets(self) -> int:
        return sum(len(each.heard) for each in self.servers)

    async def open(self) -> Internet:
        factory: Any = Factory.forProtocol(self._made)
        factory.noisy = False  # the log would keep it, and this world with it
        endpoint = TCP4ServerEndpoint(self.world.reactor, 0, interface="127.0.0.1")
        self.listening: Any = await endpoint.listen(factory)
        self.port: int = self.listening.getHost().port
        self.dial(self.port)
        return self

    def dial(self, port: int) -> None:
        """Whatever is asked for, this port of loopback is dialled."""
        routes = self.world.broker.context.routes
        hosts = LoopbackHosts(self.world.broker_reactor, self.names, 2.0, port=port)
        routes.now = evolve(routes.now, other_hosts=hosts)

    def _made(self) -> Outside:
        self.servers.append(self._server())
        return self.servers[-1]

    async def close(self) -> None:
        for server in self.servers:
            server.end()
        await self.listening.stopListening()


class Tunnel:
    """A sidecar's CONNECT and what became of it."""

    def __init__(self, world: World, sidecar: Sidecar) -> None:
        self.world = world
        self.connection: ClientConnection = sidecar.connection
        self.reply = Reply()
        self.opened: Deferred[TunnelEnd] = Deferred()
        self.heard = b""
        self.gone = False

    def begin(self, to: Destination = WEB) -> Tunnel:
        self.connection.connect(format_connect(to, EXTRA), self.reply, self._open)
        return self

    async def ask(self, to: Destination = WEB) -> Tunnel:
        self.begin(to)
        await self.until(lambda: self.opened.called or self.reply.done.called)
        return self

    def _open(self, end: TunnelEnd) -> None:
        self.end = end
        self.opened.callback(end)
        end.attach(self)

    @property
    def code(self) -> str | None:
        if self.opened.called:
            return None
        value = self.reply.header(b"gitmoat-code")
        return None if value is None else value.decode()

    async def until(self, true: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, "waited in vain"
            await deferLater(self.world.reactor, 0.01)

    def data(self, octets: bytes) -> None:
        self.heard += octets

    def ended(self) -> None:
        """`lost` follows."""

    def all_sent(self) -> None:
        """`lost` follows."""

    def lost(self, cleanly: bool) -> None:
        self.gone = True

    def flowed(self) -> None:
        """Little is written."""


def ask_plain(sidecar: Sidecar, method: bytes, *headers: tuple[bytes, bytes]) -> Reply:
    return begin_plain(sidecar, method, NoBody(), *headers)[1]


def begin_plain(
    sidecar: Sidecar, method: bytes, framing: Framing, *headers: tuple[bytes, bytes]
) -> tuple[Outgoing, Reply]:
    every = [(b"Host", b"web.example"), *EXTRA, *headers, *framing_headers(framing)]
    reply = Reply()
    head = format_request(method, b"http://web.example:80/a?b", every)
    return sidecar.connection.send(head, framing, reply), reply
