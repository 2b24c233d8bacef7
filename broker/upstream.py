"""Connections to upstreams: dialled with their certificates verified, kept warm for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from OpenSSL import SSL
from service_identity.exceptions import VerificationError
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from broker.errors import Unavailable
from broker.routes import Route
from broker.settings import Timeouts as BrokerTimeouts
from streams.http import ClientConnection, Timeouts

# A server may close an idle connection at any moment; a request with a body cannot be repeated,
# so it only takes a connection that was used just now.
FRESH_SECONDS = 4.0
KEEP_SECONDS = 30.0
KEEP_CONNECTIONS = 32


@frozen
class Acquired:
    connection: ClientConnection
    reused: bool


@define(eq=False)
class _Kept:
    route: Route
    connection: ClientConnection
    since: float


def _why(reason: Failure) -> Unavailable:
    """Certificate trouble has its own code; nothing else of the failure is told."""
    error = reason.value
    if isinstance(error, VerificationError) or _is_certificate(error):
        return Unavailable("U106", "the git server's certificate is not trusted")
    return Unavailable("U101", "the git server cannot be reached", type(error).__name__)


def _is_certificate(error: BaseException | None) -> bool:
    if not isinstance(error, SSL.Error) or not error.args:
        return False
    return any("certificate" in str(part) for entry in error.args[0] for part in entry)


@define(eq=False)
class Upstreams:
    """`acquire` and `release`; a connection serves one request at a time."""

    _reactor: Any
    _now: Callable[[], float]
    _timeouts: BrokerTimeouts
    _kept: list[_Kept] = field(factory=list, init=False)

    def acquire(self, route: Route, repeatable: bool) -> Deferred[Acquired]:
        """An idle connection or a new one; fails with Unavailable (U101, U106)."""
        oldest = self._now() - (KEEP_SECONDS if repeatable else FRESH_SECONDS)
        for kept in reversed(self._kept):
            if kept.route is route and kept.since >= oldest and kept.connection.idle:
                self._kept.remove(kept)
                done: Deferred[Acquired] = Deferred()
                done.callback(Acquired(kept.connection, reused=True))
                return done
        return self.dial(route)

    def dial(self, route: Route) -> Deferred[Acquired]:
        return _Dial(self, route).start()

    def release(self, route: Route, connection: ClientConnection) -> None:
        """Keeps it for the next request if the exchange on it ended cleanly."""
        if connection.idle and len(self._kept) < KEEP_CONNECTIONS:
            self._kept.append(_Kept(route, connection, self._now()))
        else:
            connection.close()

    def sweep(self) -> None:
        oldest = self._now() - KEEP_SECONDS
        self._drop(lambda kept: kept.since < oldest or not kept.connection.idle)

    def forget_all(self) -> None:
        """After a reload: a connection was made under the old rules."""
        self._drop(lambda kept: True)

    def _drop(self, unwanted: Callable[[_Kept], bool]) -> None:
        dropped = [kept for kept in self._kept if unwanted(kept)]
        self._kept = [kept for kept in self._kept if kept not in dropped]
        for kept in dropped:
            kept.connection.close()

    def connection(
        self,
        ready: Callable[[ClientConnection], None],
        lost: Callable[[ClientConnection, Failure], None],
    ) -> ClientConnection:
        timeouts = Timeouts(head=self._timeouts.connect, idle=self._timeouts.idle)
        return ClientConnection(self._reactor, timeouts, True, ready, lost)

    def endpoint(self, route: Route) -> Any:
        address = route.config.address
        seconds = self._timeouts.connect
        plain: Any = HostnameEndpoint(self._reactor, address.host, address.port, timeout=seconds)
        return wrapClientTLS(route.tls, plain)


@define(eq=False)
class _Dial:
    """One attempt, until its TLS handshake is complete."""

    _upstreams: Upstreams
    _route: Route
    _done: Deferred[Acquired] = field(init=False)
    _connecting: Any = field(init=False, default=None)
    _connection: ClientConnection | None = field(init=False, default=None)

    def start(self) -> Deferred[Acquired]:
        self._done = Deferred(self._cancel)
        factory = Factory.forProtocol(self._made)
        factory.noisy = False
        self._connecting = self._upstreams.endpoint(self._route).connect(factory)
        self._connecting.addErrback(self._failed)
        return self._done

    def _made(self) -> ClientConnection:
        self._connection = self._upstreams.connection(self._ready, self._lost)
        return self._connection

    def _ready(self, connection: ClientConnection) -> None:
        if not self._done.called:
            self._done.callback(Acquired(connection, reused=False))

    def _lost(self, connection: ClientConnection, reason: Failure) -> None:
        self._failed(reason)

    def _failed(self, reason: Failure) -> None:
        if not self._done.called:
            self._done.errback(_why(reason))

    def _cancel(self, done: Deferred[Acquired]) -> None:
        done.errback(Unavailable("U101", "the attempt was given up"))
        self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()
