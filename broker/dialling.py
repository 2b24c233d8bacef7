"""A TLS connection to a configured place: certificate and name verified, through a proxy or not."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any, cast

from attrs import define, field, frozen
from OpenSSL import SSL
from OpenSSL.crypto import Error as CryptoError
from service_identity.exceptions import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.defer import Deferred, fail
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.python.failure import Failure

from broker.errors import Misconfigured, Unavailable
from broker.injection import connect_head
from broker.providers.credential import Credential
from broker.running import Permit
from broker.settings import Address, Proxy, UpstreamConfig
from gitwire.errors import Malformed
from gitwire.tunnel import TunnelReader
from identity.tlsoptions import PARTIAL_WRITE, SUITES
from streams.descriptor import Descriptor
from streams.dialling import dial as dial_place
from streams.http import ClientConnection, Timeouts
from streams.tls import Tls


@define(eq=False)
class NamedServer:
    """A server known by its name: an authority that we trust has certified it."""

    host: str
    _context: SSL.Context

    def connection(self) -> SSL.Connection:
        made = SSL.Connection(self._context, None)
        made.set_connect_state()
        if not _is_address(self.host):
            made.set_tlsext_host_name(self.host.encode("ascii"))
        return made

    def verify(self, connection: SSL.Connection) -> Exception | None:
        """OpenSSL has verified the chain; this is about the name in it."""
        try:
            if _is_address(self.host):
                verify_ip_address(connection, self.host)
            else:
                verify_hostname(connection, self.host)
        except (VerificationError, CertificateError) as error:
            return error
        return None


def trusting(config: UpstreamConfig, host: str) -> NamedServer:
    """Certificate and name are verified; TLS 1.2 is the least we take."""
    trusted: Any = platformTrust()
    if config.authorities:
        try:
            roots = [Certificate.loadPEM(pem) for pem in config.authorities]
        except (CryptoError, ValueError):
            why = "holds a certificate that cannot be read"
            key = f"upstream.{config.name}.ca_file"
            raise Misconfigured("broker.toml", key, why, "give a PEM file") from None
        trusted = trustRootFromCertificates(roots)
    context = CertificateOptions(trustRoot=trusted).getContext()
    context.clear_mode(PARTIAL_WRITE)
    context.set_tls13_ciphersuites(SUITES)
    return NamedServer(host, context)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@frozen
class Way:
    """How a place is reached."""

    address: Address
    tls: NamedServer
    proxy: Proxy | None
    proxy_credential: Credential | None
    connect: float
    idle: float


class ProxyRefused(Exception):
    """The proxy did not open the tunnel; its status is all that is told."""


def dial(reactor: Any, way: Way, permit: Permit) -> Deferred[ClientConnection]:
    """A connection whose handshake is complete; fails with Unavailable (U101, U106)."""
    try:
        permit.check()
    except Unavailable as error:
        return fail(error)
    return _Dial(reactor, way).start()


def _why(reason: Failure) -> Unavailable:
    """Certificate trouble has its own code; nothing else of the failure is told."""
    error = reason.value
    if isinstance(error, Unavailable):
        return error
    if isinstance(error, VerificationError | CertificateError) or _is_certificate(error):
        return Unavailable("U106", "the git server's certificate is not trusted")
    why = str(error) if isinstance(error, ProxyRefused) else type(error).__name__
    return Unavailable("U101", "the git server cannot be reached", why)


def _is_certificate(error: BaseException | None) -> bool:
    if not isinstance(error, SSL.Error) or not error.args:
        return False
    # pyOpenSSL tells its errors as texts of OpenSSL and keeps no numbers of them.
    return any("certificate" in str(part) for entry in error.args[0] for part in entry)


@define(eq=False)
class _Dial:
    """One attempt, until its TLS handshake is complete."""

    _reactor: Any
    _way: Way
    _done: Deferred[ClientConnection] = field(init=False)
    _connecting: Deferred[None] = field(init=False)
    _connection: ClientConnection | None = field(init=False, default=None)

    def start(self) -> Deferred[ClientConnection]:
        self._done = Deferred(self._cancel)
        self._connecting = Deferred.fromCoroutine(self._connect())
        self._connecting.addErrback(self._failed)
        return self._done

    async def _connect(self) -> None:
        way = self._way
        place = way.address if way.proxy is None else way.proxy.address
        sock = await dial_place(self._reactor, place.host, place.port, way.connect)
        if way.proxy is not None:
            sock = await _tunnel(self._reactor, sock, way)
        self._start_tls(sock)

    def _start_tls(self, sock: socket.socket) -> None:
        timeouts = Timeouts(head=self._way.connect, idle=self._way.idle)
        connection = ClientConnection(
            self._reactor, timeouts, True, self._ready, lambda _, reason: self._failed(reason)
        )
        tls = self._way.tls
        try:
            made = Tls(self._reactor, sock, connection, tls.connection(), tls.verify)
        except OSError:
            sock.close()
            raise
        self._connection = connection
        made.start()

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


def _tunnel(reactor: Any, sock: socket.socket, way: Way) -> Deferred[socket.socket]:
    """The same socket, once the proxy has opened the way; fails with ProxyRefused."""
    opened: Deferred[socket.socket] = Deferred(lambda _: asking.give_up())
    asking = _Asking(reactor, way, opened)
    Descriptor(reactor, sock, asking).start()
    return opened


class _Asking(Protocol):
    """Says CONNECT, reads one head, then gives the socket away."""

    def __init__(self, reactor: Any, way: Way, opened: Deferred[socket.socket]) -> None:
        self._clock = reactor
        self._way = way
        self._opened = opened
        self._reader = TunnelReader()
        self._timer: Any = None

    def connectionMade(self) -> None:
        self._timer = self._clock.callLater(self._way.connect, self._fail, "does not answer")
        self._transport.write(connect_head(self._way.address, self._way.proxy_credential))

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
            self._opened.callback(self._transport.release())
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
            place = self._way.proxy.address if self._way.proxy is not None else ""
            self._opened.errback(ProxyRefused(f"the proxy {place} {what}"))
