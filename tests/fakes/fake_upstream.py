"""A TLS server on loopback that says exactly the bytes a test wants, and keeps all it hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import BodyReader, RequestReader, body_reader

CA = trustme.CA()


def ok(service: Service, kind: str, body: bytes, *more: bytes) -> bytes:
    """A whole 200 answer of a git server, with a length."""
    lines = [
        b"HTTP/1.1 200 OK",
        b"Content-Type: application/x-%s-%s" % (service.value.encode(), kind.encode()),
        b"Content-Length: %d" % len(body),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Talk(Protocol):
    """One connection; requests on it one after the other."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self.upstream = upstream
        self.raw = b""
        self.head = b""
        self.body = b""
        self.lost = False
        self._reader = RequestReader()
        self._body: BodyReader | None = None

    def say(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)

    def close(self) -> None:
        transport: Any = self.transport
        transport.loseConnection()

    def abort(self) -> None:
        transport: Any = self.transport
        transport.abortConnection()

    def pause(self) -> None:
        transport: Any = self.transport
        transport.pauseProducing()

    def connectionMade(self) -> None:
        self.upstream.talks.append(self)

    def dataReceived(self, data: bytes) -> None:
        self.upstream.octets += len(data)
        self.raw += data
        if self._body is None:
            data = self._take_head(data)
        if self._body is not None:
            self._take_body(data)

    def _take_head(self, data: bytes) -> bytes:
        head = self._reader.feed(data)
        if head is None:
            return b""
        self.head = self.raw.partition(b"\r\n\r\n")[0]
        self.upstream.heads.append(self.head)
        self._body = body_reader(head.framing)
        self.upstream.on_head(self)
        return self._reader.leftover

    def _take_body(self, data: bytes) -> None:
        assert self._body is not None
        if data and not self._body.done:
            self.body += b"".join(self._body.feed(data))
        if self._body.done:
            body, self.body = self.body, b""
            self.upstream.bodies.append(body)
            self.raw, self._reader, self._body = b"", RequestReader(), None
            self.upstream.on_request(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True


@implementer(IOpenSSLServerConnectionCreator)
class _Server:
    """Twisted's own options warn about the way they use pyOpenSSL."""

    def __init__(self, leaf: trustme.LeafCert) -> None:
        self._context = SSL.Context(SSL.TLS_SERVER_METHOD)
        key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        self._context.use_privatekey(key)
        certificate = load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
        self._context.use_certificate(certificate)

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        connection = SSL.Connection(self._context, None)
        connection.set_accept_state()
        return connection


class FakeUpstream(Factory[Talk]):
    """`on_head` and `on_request` (head and whole body) are what a test sets."""

    noisy = False

    def __init__(self, reactor: Any, name: str = "localhost", ca: trustme.CA = CA) -> None:
        self.talks: list[Talk] = []
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.octets = 0
        self.on_head: Callable[[Talk], None] = lambda talk: None
        self.on_request: Callable[[Talk], None] = lambda talk: None
        server: Any = _Server(ca.issue_cert(name))
        factory: Any = self
        tls = TLSMemoryBIOFactory(server, False, factory, reactor)
        self._port = reactor.listenTCP(0, tls, interface="127.0.0.1")
        self.port: int = self._port.getHost().port

    def buildProtocol(self, addr: object) -> Talk:
        return Talk(self)

    @property
    def connections(self) -> int:
        return len(self.talks)

    def answers(self, data: bytes) -> None:
        """Say the same to every request."""
        self.on_request = lambda talk: talk.say(data)

    async def close(self) -> None:
        """Idempotent."""
        if self._port.connected:
            await self._port.stopListening()
        for talk in self.talks:
            if not talk.lost:
                talk.abort()
