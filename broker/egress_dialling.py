"""Connections to hosts outside: resolved and checked here, dialled at the checked address."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.protocol import Protocol

from broker.errors import Unavailable
from broker.resolving import Resolver
from broker.running import Entry
from broker.settings import Address as Place
from gitwire.hostname import Destination
from gitwire.http import Piece, ResponseHead, format_request
from netpolicy.addresses import Address, may_dial
from streams.causes import Why
from streams.client import ClientConnection
from streams.descriptor import Descriptor
from streams.dialling import connect, dial
from streams.raw import Raw, RawConnection
from streams.timing import Timeouts

_MOST_ADDRESSES = 4


def is_ours(address: Address) -> bool:
    """Whether the address is one of this machine's: then the kernel would speak from it, too."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((str(address), 9))  # nothing is sent
        except OSError:
            return False
        return bool(asked.getsockname()[0] == str(address))


@define(eq=False)
class Dialler:
    """`raw` gives the end of a tunnel, `plain` a connection for HTTP.

    Both fail with Unavailable: E106 for what the name leads to, E107 for what does not answer.
    With a corporate proxy the name is resolved and checked all the same; a tunnel then goes to
    the checked address, a plain request to the proxy, which needs the name.
    """

    reactor: Any
    resolver: Resolver
    timeout: float
    proxy: Place | None = None
    ours: Callable[[Address], bool] = is_ours

    async def raw(self, to: Destination, allow_private: bool, entry: Entry) -> Raw:
        addresses = await self._addresses(to, allow_private, entry)
        if self.proxy is not None:
            return await self._through_proxy(self.proxy, addresses, to.port)
        made = RawConnection()
        await self._first(addresses, to.port, made)
        return made.raw

    async def plain(
        self, to: Destination, allow_private: bool, entry: Entry, timeouts: Timeouts
    ) -> ClientConnection:
        made = ClientConnection(self.reactor, timeouts, secure=False)
        addresses = await self._addresses(to, allow_private, entry)
        if self.proxy is not None:
            await self._to_proxy(self.proxy, made)
        else:
            await self._first(addresses, to.port, made)
        return made

    async def _addresses(self, to: Destination, allow_private: bool, entry: Entry) -> list[Address]:
        entry.check()
        resolving = self.resolver.resolve(to.host, entry.session)
        found = await _within(resolving, self.timeout, self.reactor)
        if not found:
            raise _unreachable("the name has no address")
        good = [each for each in found if may_dial(each, allow_private) and not self.ours(each)]
        if not good:
            shown = ", ".join(map(str, found[:_MOST_ADDRESSES]))
            raise Unavailable("E106", "the name leads to no public address", shown)
        return good[:_MOST_ADDRESSES]

    async def _first(self, addresses: list[Address], port: int, protocol: Protocol) -> None:
        try:
            sock = await connect(self.reactor, addresses, port, self.timeout)
        except ConnectError as error:
            raise _unreachable(type(error).__name__) from None
        Descriptor(self.reactor, sock, protocol).start()

    async def _to_proxy(self, proxy: Place, protocol: Protocol) -> None:
        try:
            sock = await dial(self.reactor, proxy.host, proxy.port, self.timeout)
        except (ConnectError, DNSLookupError) as error:
            raise _unreachable(f"the proxy: {type(error).__name__}") from None
        Descriptor(self.reactor, sock, protocol).start()

    async def _through_proxy(self, proxy: Place, addresses: list[Address], port: int) -> Raw:
        timeouts = Timeouts(head=self.timeout, idle=self.timeout)
        connection = ClientConnection(self.reactor, timeouts, secure=False)
        await self._to_proxy(proxy, connection)
        opening: Deferred[Raw] = Deferred()
        target = _authority(addresses[0], port)
        head = format_request(b"CONNECT", target, [(b"Host", target)])
        connection.connect(head, _ProxyAnswer(opening), opening.callback)
        try:
            return await opening
        except BaseException:  # refused, failed, or nobody waits any more: it is of no use
            connection.abort()
            raise


async def _within(resolving: Deferred[list[Address]], seconds: float, clock: Any) -> list[Address]:
    resolving.addTimeout(seconds, clock)
    try:
        return await resolving
    except TimedOut:
        raise _unreachable("the resolver does not answer") from None


def _authority(address: Address, port: int) -> bytes:
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"{host}:{port}".encode()


def _unreachable(why: str) -> Unavailable:
    return Unavailable("E107", "the host cannot be reached", why)


@define(eq=False)
class _ProxyAnswer:
    """A proxy that does not open the tunnel."""

    _opening: Deferred[Raw]

    def response(self, head: ResponseHead) -> None:
        self._fail(f"the proxy answered {head.status}")

    def body(self, *pieces: Piece) -> None:
        """A proxy's error page is for nobody."""

    def body_done(self) -> None:
        """The head has said it."""

    def failed(self, why: Why) -> None:
        self._fail(f"the proxy: {why.text}")

    def _fail(self, why: str) -> None:
        if not self._opening.called:
            self._opening.errback(_unreachable(why))
