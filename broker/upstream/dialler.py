"""Connections along a route: straight or through a proxy, plain or over verified TLS.

Giving up leaves nothing open: everything that is awaited here closes what it opened
when it is cancelled.
"""

from __future__ import annotations

import socket
from typing import Any, cast

from attrs import frozen
from OpenSSL import SSL
from service_identity.exceptions import CertificateError, VerificationError
from twisted.internet.defer import Deferred
from twisted.internet.error import (
    ConnectError,
    ConnectionRefusedError,
    DNSLookupError,
    NoRouteError,
    TCPTimedOutError,
    TimeoutError,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from broker.config.values import Address
from broker.credentials.injection import connect_head
from broker.credentials.providers.credential import Credential
from broker.errors import Unavailable
from broker.sessions.running import Permit
from broker.upstream.route import NamedServer, Route
from gitmoat.net.http.ends import ClientConnection, Timeouts
from gitmoat.net.http.whole_answer import WholeAnswer
from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.transport.dialling import connect, dial
from gitmoat.net.transport.tls import Tls
from gitmoat.net.tunnel_end import TunnelConnection, TunnelEnd
from gitmoat.wire.http.connect_answer import TunnelReader
from gitmoat.wire.http.heads import Length, NoBody, ResponseHead
from gitmoat.wire.malformed import Malformed
from netpolicy.egress_rules.addresses import Address as Number


class ProxyRefused(Exception):
    """The proxy did not open the tunnel; its status is all that is told."""


class _Lost(Exception):
    """The connection ended before its handshake was complete."""

    def __init__(self, reason: BaseException | None) -> None:
        super().__init__()
        self.reason = reason


@frozen(eq=False)
class Dialler:
    """Both fail with Unavailable: as the route calls it, or U106, or as its addresses say."""

    _reactor: Any

    async def http(self, route: Route, permit: Permit) -> ClientConnection:
        """Ready to be asked: over TLS the server is known to be the named one."""
        try:
            sock = await self._socket(route, permit)
            if route.trust is not None:
                return await _handshake(self._reactor, sock, route, route.trust)
        except (ConnectError, OSError, ProxyRefused, _Lost) as error:
            raise _unavailable(route, error) from None
        made = ClientConnection(self._reactor, Timeouts(idle=route.idle), secure=False)
        Descriptor(self._reactor, sock, made).start()
        return made

    async def tunnel(self, route: Route, permit: Permit) -> TunnelEnd:
        """The end of a tunnel, which nobody has said anything in."""
        try:
            sock = await self._socket(route, permit)
        except (ConnectError, OSError, ProxyRefused) as error:
            raise _unavailable(route, error) from None
        made = TunnelConnection()
        Descriptor(self._reactor, sock, made).start()
        return made.end

    async def whole(
        self, route: Route, permit: Permit, head: bytes, body: bytes, limit: int
    ) -> tuple[ResponseHead, bytes]:
        """One request on a connection of its own, and its answer; NoAnswer, Unavailable."""
        connection = await self.http(route, permit)
        answer = WholeAnswer(limit)
        try:
            sent = connection.send(head, Length(len(body)) if body else NoBody(), answer)
            sent.write(body)
            sent.finish()
            return await answer.done
        finally:
            connection.close()

    async def _socket(self, route: Route, permit: Permit) -> socket.socket:
        permit.check()
        found = None if route.addresses is None else await route.addresses.find(permit)
        if route.proxy is None:
            return await self._connect(route, found)
        credential = await route.proxy.credential(permit)
        permit.check()
        through = route.proxy.address
        sock = await dial(self._reactor, through.host, through.port, route.connect)
        if not route.tunnelled:
            return sock
        place = route.place if found is None else Address(str(found[0]), route.place.port)
        return await _tunnel(self._reactor, sock, route, place, credential)

    async def _connect(self, route: Route, found: list[Number] | None) -> socket.socket:
        place = route.place
        if found is None:
            return await dial(self._reactor, place.host, place.port, route.connect)
        return await connect(self._reactor, found, place.port, route.connect)


def _unavailable(route: Route, error: BaseException | None) -> Unavailable:
    """Certificate trouble has its own code; nothing else of the failure is told."""
    if isinstance(error, _Lost):
        error = error.reason
    if _is_certificate(error):
        what = "the git server's certificate is not trusted"
        why = "no authority that is trusted for it signed it for this name, or it has expired"
        return Unavailable("U106", what, why)
    why = str(error) if isinstance(error, ProxyRefused) else _in_words(error)
    return Unavailable(*route.unreachable, why)


# As the owner reads it: the audit has it, and `hostctl cred test`.
_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (DNSLookupError, "the name has no address"),
    (ConnectionRefusedError, "the connection was refused: nobody listens there"),
    (NoRouteError, "there is no route to the address"),
    (TimeoutError, "there was no answer in time"),
    (TCPTimedOutError, "there was no answer in time"),
    (SSL.Error, "the TLS handshake failed"),
)


def _in_words(error: BaseException | None) -> str:
    """No text of the error itself, which may be anybody's."""
    found = (words for kind, words in _WORDS if isinstance(error, kind))
    return next(found, "the connection could not be made")


def _is_certificate(error: BaseException | None) -> bool:
    if isinstance(error, VerificationError | CertificateError):
        return True
    if not isinstance(error, SSL.Error) or not error.args:
        return False
    # pyOpenSSL tells its errors as texts of OpenSSL and keeps no numbers of them.
    return any("certificate" in str(part) for entry in error.args[0] for part in entry)


def _handshake(
    reactor: Any, sock: socket.socket, route: Route, trust: NamedServer
) -> Deferred[ClientConnection]:
    done: Deferred[ClientConnection] = Deferred(lambda _: connection.abort())

    def ready(made: ClientConnection) -> None:
        if not done.called:
            done.callback(made)

    def lost(_: ClientConnection, reason: Failure) -> None:
        if not done.called:
            done.errback(_Lost(reason.value))

    timeouts = Timeouts(head=route.connect, idle=route.idle)
    connection = ClientConnection(reactor, timeouts, True, ready, lost)
    try:
        transport = Tls(reactor, sock, connection, trust.connection(), trust.verify)
    except OSError:
        sock.close()
        raise
    transport.start()
    return done


def _tunnel(
    reactor: Any,
    sock: socket.socket,
    route: Route,
    place: Address,
    credential: Credential | None,
) -> Deferred[socket.socket]:
    """The same socket, once the proxy has joined it to `place`; fails with ProxyRefused."""
    opened: Deferred[socket.socket] = Deferred(lambda _: asking.give_up())
    asking = _Asking(reactor, route, connect_head(place, credential), opened)
    Descriptor(reactor, sock, asking).start()
    return opened


class _Asking(Protocol):
    """Says CONNECT, reads one head, then gives the socket away."""

    def __init__(
        self, reactor: Any, route: Route, head: bytes, opened: Deferred[socket.socket]
    ) -> None:
        self._clock = reactor
        self._route = route
        self._head = head
        self._opened = opened
        self._reader = TunnelReader()
        self._timer: Any = None

    def connectionMade(self) -> None:
        self._timer = self._clock.callLater(self._route.connect, self._fail, "does not answer")
        self._transport.write(self._head)

    @property
    def _transport(self) -> Descriptor:
        return cast(Descriptor, self.transport)

    def dataReceived(self, data: bytes) -> None:
        try:
            status = self._reader.feed(data)
        except Malformed:
            self._fail("gave an unusable answer")
            return
        if status is not None and 200 <= status < 300:
            self._timer.cancel()
            self._opened.callback(self._transport.detach())
        elif status is not None:
            self._fail("wants another credential" if status == 407 else f"answered {status}")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._fail("closed the connection")

    def give_up(self) -> None:
        if self._timer.active():
            self._timer.cancel()
        self._transport.abortConnection()

    def _fail(self, what: str) -> None:
        if not self._opened.called:
            self.give_up()
            called = self._route.proxy.called if self._route.proxy is not None else ""
            self._opened.errback(ProxyRefused(f"{called} {what}"))
