"""Where metrics are read: `GET /metrics` on a Unix socket of root's, and on loopback if wanted."""

from __future__ import annotations

import socket
from collections.abc import Callable

from broker.api.metrics import CONTENT_TYPE
from gitmoat.net.http.ends import Incoming, ServerConnection, Timeouts
from gitmoat.net.transport.accepting import Acceptor
from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.transport.seqpacket import Reactor

CONNECTIONS = 8
_TIMEOUTS = Timeouts(head=5.0, idle=10.0, wait=5.0, drain=5.0)


class MetricsPort:
    """Serves a few readers at a time; the others are closed."""

    def __init__(self, reactor: Reactor, sock: socket.socket, text: Callable[[], bytes]) -> None:
        self._reactor = reactor
        self._text = text
        self._open: set[ServerConnection] = set()
        self._acceptor = Acceptor(reactor, sock, None, self._accepted)
        self._acceptor.start()

    def close(self) -> None:
        self._acceptor.close()
        for connection in tuple(self._open):
            connection.abort()

    def _accepted(self, sock: socket.socket) -> None:
        if len(self._open) >= CONNECTIONS:
            sock.close()
            return
        connection = ServerConnection(
            self._reactor,
            self._request,
            _TIMEOUTS,
            on_lost=lambda: self._open.discard(connection),
        )
        transport = Descriptor(self._reactor, sock, connection)
        self._open.add(connection)
        transport.start()

    def _request(self, incoming: Incoming) -> None:
        head = incoming.head
        if (head.method, head.target) == (b"GET", b"/metrics"):
            incoming.reply(200, ((b"Content-Type", CONTENT_TYPE),), self._text(), close=True)
        else:
            body = b"there is only GET /metrics here\n"
            incoming.reply(404, ((b"Content-Type", b"text/plain"),), body, close=True)
