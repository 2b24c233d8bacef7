"""Connections to upstreams: kept warm for a while, dialled when there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed

from broker.dialling import Way, dial
from broker.providers.credential import Credential, Need
from broker.routes import Route
from streams.http import ClientConnection

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


@define(eq=False)
class Upstreams:
    """`acquire` and `release`; a connection serves one request at a time."""

    _reactor: Any
    _now: Callable[[], float]
    _kept: list[_Kept] = field(factory=list, init=False)

    def acquire(self, route: Route, repeatable: bool) -> Deferred[Acquired]:
        """An idle connection or a new one; fails with Unavailable (U101, U105, U106)."""
        oldest = self._now() - (KEEP_SECONDS if repeatable else FRESH_SECONDS)
        for kept in reversed(self._kept):
            if kept.route is route and kept.since >= oldest and kept.connection.idle:
                self._kept.remove(kept)
                return succeed(Acquired(kept.connection, reused=True))
        return self.dial(route)

    def dial(self, route: Route) -> Deferred[Acquired]:
        dialled = _proxy_credential(route).addCallback(
            lambda credential: dial(self._reactor, _way(route, credential))
        )
        return dialled.addCallback(lambda connection: Acquired(connection, reused=False))

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


def _proxy_credential(route: Route) -> Deferred[Credential | None]:
    if route.proxy is None:
        return succeed(None)
    return route.proxy.credential(Need(route.config, "", write=False))  # type: ignore[return-value]


def _way(route: Route, credential: Credential | None) -> Way:
    config = route.config
    timeouts = config.timeouts
    return Way(config.address, route.tls, config.proxy, credential, timeouts.connect, timeouts.idle)
