"""An HTTP proxy on loopback that opens tunnels, or says what a test wants instead."""

from __future__ import annotations

from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure


class _End(Protocol):
    """One side of a tunnel; bytes go to the other."""

    def __init__(self) -> None:
        self.other: _End | None = None
        self.held = b""

    def say(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)

    def dataReceived(self, data: bytes) -> None:
        if self.other is None:
            self.held += data
        else:
            self.other.say(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.other is not None:
            transport: Any = self.other.transport
            transport.loseConnection()


class _Door(_End):
    def __init__(self, proxy: ConnectProxy) -> None:
        super().__init__()
        self._proxy = proxy
        self._head = b""

    def connectionMade(self) -> None:
        self._proxy.ends.append(self)

    def dataReceived(self, data: bytes) -> None:
        if self.other is not None or b"\r\n\r\n" in self._head:
            super().dataReceived(data)
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._proxy.heads.append(self._head)
            self._asked()

    def _asked(self) -> None:
        if self._proxy.answer is not None:
            self.say(self._proxy.answer)
            return
        place = self._head.split(b" ")[1].decode()
        host, _, port = place.rpartition(":")
        assert host == "localhost"
        endpoint = TCP4ClientEndpoint(self._proxy.reactor, "127.0.0.1", int(port))
        far = _End()
        connectProtocol(endpoint, far).addCallback(lambda _: self._joined(far))

    def _joined(self, far: _End) -> None:
        far.other, self.other = self, far
        self.say(b"HTTP/1.0 200 Connection established\r\nVia: test\r\n\r\n")
        far.say(self.held)


class ConnectProxy(Factory[_Door]):
    noisy = False

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self.heads: list[bytes] = []
        self.ends: list[_End] = []
        self.answer: bytes | None = None
        factory: Any = self
        self._port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.port: int = self._port.getHost().port

    def buildProtocol(self, addr: object) -> _Door:
        return _Door(self)

    async def close(self) -> None:
        if self._port.connected:
            await self._port.stopListening()
        for end in self.ends:
            transport: Any = end.transport
            transport.abortConnection()
