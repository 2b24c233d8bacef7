"""A port: accepts within its budget, and knows whom it serves until all of them are gone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from gitmoat.listeners import Budget
from gitmoat.net.transport.accepting import Acceptor
from sidecar.loop import Loop


class Client(Protocol):
    """One accepted connection, as long as it is there."""

    def close(self) -> None:
        """End in order, after what runs on it."""

    def abort(self) -> None:
        """End now."""


# Makes the client of an accepted socket, which calls what it was given once, when it is gone.
# None: the peer is not served. OSError: it has gone already.
Serve = Callable[[socket.socket, Callable[[], None]], Client | None]


class Port:
    """Serves one listener until it is drained."""

    def __init__(self, loop: Loop, fd: int, budget: Budget, serve: Serve, waits: bool) -> None:
        """`waits`: what runs on its connections is waited for when it is drained."""
        self._serve = serve
        self._waits = waits
        self._acceptor = Acceptor(
            loop,
            socket.socket(fileno=fd),
            budget.connections,
            self._accepted,
            budget.rate(),
        )
        self._clients: set[Client] = set()
        self._drained: Callable[[], None] | None = None

    def start(self) -> None:
        self._acceptor.start()

    def drain(self, drained: Callable[[], None]) -> None:
        """Accept no more, end the others, then call `drained`."""
        self._acceptor.close()
        self._drained = drained
        if self._waits:
            for client in list(self._clients):
                client.close()
        else:
            self.cut()
        self._check_drained()

    def cut(self) -> None:
        """End whatever still runs."""
        for client in list(self._clients):
            client.abort()

    def _accepted(self, sock: socket.socket) -> None:
        client = self._serve(sock, lambda: self._lost(client))
        if client is None:
            sock.close()
            self._acceptor.ended()
        else:
            self._clients.add(client)

    def _lost(self, client: Client | None) -> None:
        if client is not None:
            self._clients.discard(client)
        self._acceptor.ended()
        self._check_drained()

    def _check_drained(self) -> None:
        if self._drained is not None and not self._clients:
            drained, self._drained = self._drained, None
            drained()
