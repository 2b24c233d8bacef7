"""Where metrics are read: `GET /metrics` on a Unix socket of root's, and on loopback if wanted."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.protocol import Factory, Protocol

from broker.metrics import CONTENT_TYPE
from streams.http import Incoming, ServerConnection, Timeouts
from streams.seqpacket import SeqpacketListener

CONNECTIONS = 8
_TIMEOUTS = Timeouts(head=5.0, idle=10.0, wait=5.0, drain=5.0)


class MetricsPort:
    """Serves a few readers at a time; the others are closed."""

    def __init__(self, reactor: Any, sock: socket.socket, text: Callable[[], bytes]) -> None:
        self._reactor = reactor
        self._text = text
        self._open: set[ServerConnection] = set()
        self._listener = SeqpacketListener(reactor, sock, self._accepted)

    def close(self) -> None:
        self._listener.close()
        for connection in tuple(self._open):
            connection.abort()

    def _accepted(self, sock: socket.socket) -> None:
        if len(self._open) < CONNECTIONS:
            factory = Factory.forProtocol(self._connection)
            factory.noisy = False
            self._reactor.adoptStreamConnection(sock.fileno(), sock.family, factory)
        sock.close()

    def _connection(self) -> Protocol:
        made: list[ServerConnection] = []
        connection = ServerConnection(
            self._reactor,
            self._request,
            _TIMEOUTS,
            on_lost=lambda: self._open.discard(made[0]),
        )
        made.append(connection)
        self._open.add(connection)
        return connection

    def _request(self, incoming: Incoming) -> None:
        head = incoming.head
        if (head.method, head.target) == (b"GET", b"/metrics"):
            incoming.reply(200, ((b"Content-Type", CONTENT_TYPE),), self._text(), close=True)
        else:
            body = b"there is only GET /metrics here\n"
            incoming.reply(404, ((b"Content-Type", b"text/plain"),), body, close=True)
