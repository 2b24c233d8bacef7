"""Broker connections: sockets that hostd dialled, made into TLS links of the pool."""

from __future__ import annotations

import socket
from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.identity.tls_options import PinnedClient
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.relay import Broken, Outcome, Side, Unanswered
from gitmoat.net.timing import Timeouts
from gitmoat.net.transport.tls import Tls
from sidecar.link.connection_pool import ConnectionPool, Proof
from sidecar.loop import Loop

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)


class BrokerLink:
    """Owns the session's key and the pool of connections that are authenticated with it."""

    _log = Logger()

    def __init__(
        self,
        loop: Loop,
        seed: bytes,
        broker_keys: frozenset[bytes],
        dial: Callable[[], bool],
        cap: int,
        timeouts: Timeouts,
        egress: int,
    ) -> None:
        """`egress` of the `cap` connections are for other hosts."""
        self._loop = loop
        self._timeouts = timeouts
        self._keys = broker_keys
        self._creator = PinnedClient(seed, lambda: self._keys)
        self._ready: set[ClientConnection] = set()
        self.pool: ConnectionPool[ClientConnection] = ConnectionPool(loop, dial, cap, egress=egress)

    def pin(self, broker_keys: frozenset[bytes]) -> None:
        """For handshakes from now on; a link that is open proved its key when it was made."""
        self._keys = broker_keys

    def adopt(self, sock: socket.socket) -> None:
        """Take over a connected socket, or close it: it never stays open for nothing."""
        link = ClientConnection(
            self._loop, self._timeouts, secure=True, on_ready=self._opened, on_lost=self._lost
        )
        if not self.pool.add(link):
            sock.close()
            return
        try:
            self._start_tls(sock, link)
        except OSError:  # the broker closed it already
            sock.close()
            self.pool.lost(link)

    def _start_tls(self, sock: socket.socket, link: ClientConnection) -> None:
        if sock.family != socket.AF_UNIX:
            for level, option, value in _KEEPALIVE:
                sock.setsockopt(level, option, value)
        Tls(self._loop, sock, link, self._creator.connection()).start()

    def _opened(self, link: ClientConnection) -> None:
        self._ready.add(link)
        self.pool.opened(link)

    def _lost(self, link: ClientConnection, reason: Failure) -> None:
        if link not in self._ready:
            # Type only: OpenSSL's text has no secret, but what is not needed is not written.
            self._log.warn("broker handshake failed: {kind}", kind=type(reason.value).__name__)
        self._ready.discard(link)
        self.pool.lost(link)


def shown(outcome: Outcome, answered: bool, given_up: bool = False) -> Proof:
    """A client that goes away, or cannot spell, says nothing about the broker."""
    if answered:
        return Proof.ANSWERED
    match outcome:
        case Broken(side=Side.CLIENT) | Unanswered(why=Why(cause=Cause.NO_REQUEST)):
            given_up = True
    return Proof.NONE if given_up else Proof.FAILED
