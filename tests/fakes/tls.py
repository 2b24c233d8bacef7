"""TLS ends joined in memory: our protocols over Twisted, and the standard library as a stranger."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509 import Certificate
from OpenSSL import SSL
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
    IReactorTime,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import directlyProvides

from gitmoat.identity.tls_options import PinnedClient, PinnedServer


class _Creator:
    """One of our ends, as Twisted's TLS asks for it."""

    def __init__(self, made: PinnedClient | PinnedServer) -> None:
        self._made = made

    def clientConnectionForTLS(self, _: object) -> SSL.Connection:
        return self._made.connection()

    serverConnectionForTLS = clientConnectionForTLS  # noqa: N815


def over_tls(creator: PinnedClient | PinnedServer, factory: Any, clock: Any) -> Any:
    """Twisted's own TLS under the protocols of `factory`: another implementation than ours."""
    ends: Any = _Creator(creator)
    directlyProvides(ends, IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator)
    client = isinstance(creator, PinnedClient)
    return TLSMemoryBIOFactory(ends, client, factory, clock)


class Talker(Protocol):
    """Says its greeting at once and keeps what it hears."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.heard = b""
        self.lost: Failure | None = None

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.write(self.greeting)

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason

    @property
    def lost_to(self) -> type[BaseException] | None:
        """The kind of error that ended the connection."""
        return None if self.lost is None else self.lost.type


class End:
    """A talker over pinned TLS over a transport in memory."""

    def __init__(self, creator: PinnedClient | PinnedServer, talker: Talker) -> None:
        self.clock = Clock()
        self.raw: Any = StringTransport()
        self.sent = 0
        self.talker = talker
        self._open = True
        factory: Factory[Any] = Factory.forProtocol(lambda: talker)
        wrapper: Any = over_tls(creator, factory, cast(IReactorTime, self.clock))
        self.tls: Any = wrapper.buildProtocol(None)

    def start(self) -> None:
        self.tls.makeConnection(self.raw)

    def take(self) -> bytes:
        """Raw bytes this end wants to send."""
        self.clock.advance(0)
        out: bytes = self.raw.value()
        self.raw.clear()
        self.sent += len(out)
        return out

    def give(self, data: bytes) -> None:
        if self._open and data:
            self.tls.dataReceived(data)

    @property
    def closing(self) -> bool:
        return bool(self.raw.disconnecting or self.raw.disconnected)

    def lose(self) -> None:
        if self._open:
            self._open = False
            self.tls.connectionLost(connectionDone)


def join(client: End, server: End) -> None:
    """Carry bytes between two ends until both are silent; a closing end closes the other."""
    client.start()
    server.start()
    while True:
        upward, downward = client.take(), server.take()
        if not upward and not downward:
            break
        server.give(upward)
        client.give(downward)
    if client.closing or server.closing:
        client.lose()
        server.lose()


def write_pem(folder: Path, key: Ed25519PrivateKey, certificate: Certificate) -> Path:
    """Key and certificate as the standard library wants them: in a file."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "stranger.pem"
    path.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    return path


class Stranger:
    """A TLS client that is none of ours, against one connection of a PinnedServer."""

    def __init__(
        self, context: ssl.SSLContext, server: PinnedServer, session: ssl.SSLSession | None = None
    ) -> None:
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = context.wrap_bio(self.into, self.out, session=session)
        self.server: SSL.Connection = server.connection()

    def shake(self) -> None:
        """Both sides as far as they get; raises what the server raises."""
        for _ in range(8):
            self._client_turn()
            try:
                self.server.do_handshake()
            except SSL.WantReadError:
                pass
            finally:
                self._downward()

    def hear(self) -> bytes:
        """What the server says next, as the client reads it."""
        self._downward()
        return self.client.read(1024)

    def _client_turn(self) -> None:
        try:
            self.client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        if self.out.pending:
            self.server.bio_write(self.out.read())

    def _downward(self) -> None:
        try:
            self.into.write(self.server.bio_read(65536))
        except SSL.WantReadError:
            pass
