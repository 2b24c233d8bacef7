"""A TLS connection to a configured place: certificate and name verified, through a proxy or not."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen
from OpenSSL import SSL
from OpenSSL.crypto import Error as CryptoError
from service_identity.exceptions import VerificationError
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import (
    Certificate,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import Misconfigured, Unavailable
from broker.injection import connect_head
from broker.providers.credential import Credential
from broker.settings import Address, Proxy, UpstreamConfig
from gitwire.errors import Malformed
from gitwire.tunnel import TunnelReader
from streams.http import ClientConnection, Timeouts


def trusting(config: UpstreamConfig, host: str) -> IOpenSSLClientConnectionCreator:
    """Certificate and name are verified; TLS 1.2 is the least we take."""
    if not config.authorities:
        return optionsForClientTLS(host, trustRoot=platformTrust())
    try:
        roots = [Certificate.loadPEM(pem) for pem in config.authorities]
    except (CryptoError, ValueError):
        why = "holds a certificate that cannot be read"
        key = f"upstream.{config.name}.ca_file"
        raise Misconfigured("broker.toml", key, why, "give a PEM file") from None
    return optionsForClientTLS(host, trustRoot=trustRootFromCertificates(roots))


@frozen
class Way:
    """How a place is reached."""

    address: Address
    tls: IOpenSSLClientConnectionCreator
    proxy: Proxy | None
    proxy_credential: Credential | None
    connect: float
    idle: float


class ProxyRefused(Exception):
    """The proxy did not open the tunnel; its status is all that is told."""


def dial(reactor: Any, way: Way) -> Deferred[ClientConnection]:
    """A connection whose handshake is complete; fails with Unavailable (U101, U106)."""
    return _Dial(reactor, way).start()


def _endpoint(reactor: Any, way: Way) -> Any:
    place = way.address if way.proxy is None else way.proxy.address
    plain: Any = HostnameEndpoint(reactor, place.host, place.port, timeout=way.connect)
    if way.proxy is not None:
        plain = _Tunnelled(reactor, plain, way)
    return wrapClientTLS(way.tls, plain)


def _why(reason: Failure) -> Unavailable:
    """Certificate trouble has its own code; nothing else of the failure is told."""
    error = reason.value
    if isinstance(error, Unavailable):
        return error
    if isinstance(error, VerificationError) or _is_certificate(error):
        return Unavailable("U106", "the git server's certificate is not trusted")
    why = str(error) if isinstance(error, ProxyRefused) else type(error).__name__
    return Unavailable("U101", "the git server cannot be reached", why)


def _is_certificate(error: BaseException | None) -> bool:
    if not isinstance(error, SSL.Error) or not error.args:
        return False
    return any("certificate" in str(part) for entry in error.args[0] for part in entry)


@define(eq=False)
class _Dial:
    """One attempt, until its TLS handshake is complete."""

    _reactor: Any
    _way: Way
    _done: Deferred[ClientConnection] = field(init=False)
    _connecting: Any = field(init=False, default=None)
    _connection: ClientConnection | None = field(init=False, default=None)

    def start(self) -> Deferred[ClientConnection]:
        self._done = Deferred(self._cancel)
        factory = Factory.forProtocol(self._made)
        factory.noisy = False
        self._connecting = _endpoint(self._reactor, self._way).connect(factory)
        self._connecting.addErrback(self._failed)
        return self._done

    def _made(self) -> ClientConnection:
        timeouts = Timeouts(head=self._way.connect, idle=self._way.idle)
        self._connection = ClientConnection(
            self._reactor, timeouts, True, self._ready, lambda _, reason: self._failed(reason)
        )
        return self._connection

    def _ready(self, connection: ClientConnection) -> None:
        if not self._done.called:
            self._done.callback(connection)

    def _failed(self, reason: Failure) -> None:
        if not self._done.called:
            self._done.errback(_why(reason))

    def _cancel(self, done: Deferred[ClientConnection]) -> None:
        done.errback(Unavailable("U101", "the attempt was given up"))
        self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()


# Through a proxy


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _Tunnelled:
    """Connects to a proxy and asks it for a tunnel; the protocol on top sees only the tunnel."""

    _reactor: Any
    _proxy: Any
    _way: Way

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        opened: Deferred[Any] = Deferred(lambda _: asking.cancel())
        factory = Factory.forProtocol(lambda: _Asking(self._reactor, self._way, made, opened))
        factory.noisy = False

        def made(address: Any) -> Any:
            return protocolFactory.buildProtocol(address)

        asking = self._proxy.connect(factory)
        asking.addErrback(lambda reason: None if opened.called else opened.errback(reason))
        return opened


class _Asking(Protocol):
    """Says CONNECT, reads one head, then gives the transport away."""

    def __init__(self, reactor: Any, way: Way, make: Any, opened: Deferred[Any]) -> None:
        self._clock = reactor
        self._way = way
        self._make = make
        self._opened = opened
        self._reader = TunnelReader()
        self._timer: Any = None

    def connectionMade(self) -> None:
        self._timer = self._clock.callLater(self._way.connect, self._fail, "does not answer")
        self._transport.write(connect_head(self._way.address, self._way.proxy_credential))

    @property
    def _transport(self) -> Any:
        return self.transport

    def dataReceived(self, data: bytes) -> None:
        try:
            status = self._reader.feed(data)
        except Malformed:
            self._fail("gave an unusable answer")
            return
        if status is not None and 200 <= status < 300:
            self._open()
        elif status is not None:
            self._fail("wants another credential" if status == 407 else f"answered {status}")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._fail("closed the connection")

    def _open(self) -> None:
        self._timer.cancel()
        inner = self._make(self._transport.getPeer())
        self._transport.protocol = inner
        inner.makeConnection(self._transport)
        self._opened.callback(inner)

    def _fail(self, what: str) -> None:
        if self._timer.active():
            self._timer.cancel()
        if not self._opened.called:
            self._opened.errback(ProxyRefused(f"the proxy {self._way_text} {what}"))
            self._transport.abortConnection()

    @property
    def _way_text(self) -> str:
        return str(self._way.proxy.address) if self._way.proxy is not None else ""
