"""The TLS port: sidecars and hosts, each known by the key it shook hands with, and nobody else."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from attrs import define, field
from twisted.logger import Logger

from broker.api.dispatch import dispatch
from broker.config.settings import Timeouts as BrokerTimeouts
from broker.config.values import Address
from broker.context import Context
from gitmoat.codes import CODES
from gitmoat.fault import Fault
from gitmoat.identity.tls_options import PeerKeyUnknown, PinnedServer, peer_key
from gitmoat.messages.sidecar import MOST_DIALS, MOST_EGRESS
from gitmoat.net.http.ends import Incoming, ServerConnection, Timeouts
from gitmoat.net.transport.accepting import Acceptor
from gitmoat.net.transport.tls import Tls
from gitmoat.wire.http.proxying import ProxyReader

log = Logger()

_BACKLOG = 1024
# Beyond the limit a few connections are kept for hosts, so that no number of sidecars keeps a
# host from revoking; whose connection it is shows after its handshake.
RESERVED = 16
# Of one session at a time. An honest sidecar dials no more than the first two together; the rest
# are closing. One that was taken over takes no more from the others.
EACH = MOST_DIALS + MOST_EGRESS + 16
# A sidecar keeps warm connections; closing them every minute would only make it dial again.
_WAIT = 600.0


def bind(address: Address) -> socket.socket:
    """The listening socket; Fault C104 when the port is taken, before anything is changed."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_listen(address, error) from None
    listener.setblocking(False)
    return listener


def _cannot_listen(address: Address, error: OSError) -> Fault:
    if error.errno == errno.EADDRINUSE:
        what = f"the address {address} is in use"
        return Fault("C104", what, "another program listens there", CODES["C104"].fix)
    fix = "set listen.address in broker.toml to an address of this machine"
    return Fault("B104", f"cannot listen on {address}", error.strerror or "", fix)


@define(eq=False)
class _Asker:
    """Whose connection it is: TLS 1.3 never asks for another certificate, so one look is enough.

    What the key may do is looked up for every request.
    """

    key: bytes = b""

    def look(self, connection: object) -> bool:
        """Whether it has a key, which it has when its handshake is complete."""
        try:
            self.key = peer_key(cast(Any, connection))
        except PeerKeyUnknown:
            return False
        return True


@define(eq=False)
class Listener:
    """Makes the connections, counts them, and hands each request on with its asker's key."""

    _context: Context
    _limit: int
    _timeouts: Timeouts
    _connections: set[ServerConnection] = field(factory=set, init=False)
    _each: Counter[bytes] = field(factory=Counter, init=False)  # by the key of the session

    def admits(self, key: bytes) -> bool:
        """Also the key of a session that has ended, which is told so; no key without a grant."""
        if key in self._context.routes.now.hosts:
            return True
        return (
            len(self._connections) <= self._limit and self._context.sessions.by_key(key) is not None
        )

    @property
    def open(self) -> int:
        return len(self._connections)

    def full(self) -> bool:
        if len(self._connections) < self._limit + RESERVED:
            return False
        log.warn("connection refused: {limit} are open", limit=self._limit)
        return True

    @property
    def most(self) -> int:
        """One more than are kept: that one is closed at once, and does not wait in the backlog."""
        return self._limit + RESERVED + 1

    def connection(self, ended: Callable[[], None]) -> ServerConnection:
        made: list[ServerConnection] = []
        asker = _Asker()

        def lost() -> None:
            self.forget(made[0])
            self._leave(asker)
            ended()

        connection = ServerConnection(
            self._context.clock,
            partial(self._request, asker),
            self._timeouts,
            secure=True,
            on_lost=lost,
            reader=ProxyReader,
            on_secure=lambda: self._enter(made[0], asker),
        )
        made.append(connection)
        self._connections.add(connection)
        return connection

    def forget(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)

    def _enter(self, connection: ServerConnection, asker: _Asker) -> None:
        if not asker.look(connection.peer):
            connection.abort()
            return
        self._each[asker.key] += 1
        if self._each[asker.key] > EACH and asker.key not in self._context.routes.now.hosts:
            connection.abort()

    def _leave(self, asker: _Asker) -> None:
        if asker.key:
            self._each[asker.key] -= 1
            if not self._each[asker.key]:
                del self._each[asker.key]

    def _request(self, asker: _Asker, incoming: Incoming) -> None:
        if not asker.key:
            incoming.abort()
            return
        dispatch(self._context, asker.key, incoming)

    def close_all(self) -> None:
        """Each after the request that is under way; tunnels have no such end."""
        for connection in tuple(self._connections):
            connection.close()

    @property
    def closing(self) -> bool:
        """Whether one that is no tunnel is still open."""
        return not all(connection.tunnelled for connection in self._connections)

    def cut_all(self) -> None:
        for connection in tuple(self._connections):
            connection.abort()


def server_timeouts(given: BrokerTimeouts) -> Timeouts:
    return Timeouts(head=given.head, idle=given.idle, wait=_WAIT, drain=given.operation)


def serve(reactor: Any, sock: socket.socket, listener: Listener, creator: PinnedServer) -> Acceptor:
    """Takes over a bound socket, until what is returned is closed."""

    def accepted(connection: socket.socket) -> None:
        if listener.full():
            connection.close()
            acceptor.ended()
            return
        protocol = listener.connection(acceptor.ended)
        try:
            transport = Tls(reactor, connection, protocol, creator.connection())
        except OSError:  # it has gone already
            listener.forget(protocol)
            raise
        transport.start()

    acceptor = Acceptor(reactor, sock, listener.most, accepted)
    acceptor.start()
    return acceptor
