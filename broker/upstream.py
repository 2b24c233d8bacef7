"""Connections to upstreams: kept warm for a while for who used them, dialled when there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, succeed

from broker.dialling import Way, dial
from broker.errors import Unavailable
from broker.providers.credential import Credential, Need
from broker.routes import Route
from broker.running import Permit
from streams.http import ClientConnection

# A server may close an idle connection at any moment; a request with a body cannot be repeated,
# so it only takes a connection that was used just now.
FRESH_SECONDS = 4.0
KEEP_SECONDS = 30.0
# One session never has more links to us than this, so none of its connections is made in vain.
KEEP_EACH = 16
# A thousand sessions that all ask keep theirs, some 60 KiB each; below that a busy broker would
# shake hands with upstreams anew for every other request.
KEEP_CONNECTIONS = 2048


@frozen(eq=False)
class User:
    """Whose connection it is: servers may tie what they know of a client to its connection."""

    session: str
    route: Route
    credential: Credential

    def same_as(self, other: User) -> bool:
        return self.route is other.route and self.credential.same_as(other.credential)


@frozen
class Acquired:
    connection: ClientConnection
    reused: bool


@define(eq=False)
class _Kept:
    user: User
    connection: ClientConnection
    since: float


@define(eq=False)
class Upstreams:
    """`acquire` and `release`; a connection serves one request at a time, of one user only."""

    _reactor: Any
    _now: Callable[[], float]
    _kept: dict[str, list[_Kept]] = field(factory=dict, init=False)  # by session
    _count: int = field(default=0, init=False)

    def acquire(self, permit: Permit, user: User, repeatable: bool) -> Deferred[Acquired]:
        """An idle connection or a new one; fails with Unavailable (U101, U105, U106, S101)."""
        try:
            permit.check()
        except Unavailable as error:
            return fail(error)
        oldest = self._now() - (KEEP_SECONDS if repeatable else FRESH_SECONDS)
        own = self._kept.get(user.session, [])
        for kept in reversed(own):
            if kept.since >= oldest and kept.connection.idle and kept.user.same_as(user):
                self._keep(user.session, [each for each in own if each is not kept])
                return succeed(Acquired(kept.connection, reused=True))
        return self.dial(permit, user.route)

    def dial(self, permit: Permit, route: Route) -> Deferred[Acquired]:
        dialled = Deferred.fromCoroutine(_proxy_credential(permit, route)).addCallback(
            lambda credential: dial(self._reactor, _way(route, credential), permit)
        )
        return dialled.addCallback(lambda connection: Acquired(connection, reused=False))

    def release(self, user: User, connection: ClientConnection) -> None:
        """Keeps it for the user's next request if the exchange on it ended cleanly."""
        own = self._kept.get(user.session, [])
        if connection.idle and len(own) < KEEP_EACH and self._count < KEEP_CONNECTIONS:
            self._keep(user.session, [*own, _Kept(user, connection, self._now())])
        else:
            connection.close()

    def sweep(self) -> None:
        oldest = self._now() - KEEP_SECONDS
        self._drop(lambda kept: kept.since < oldest or not kept.connection.idle)

    def forget_all(self) -> None:
        """After a reload: a connection was made under the old rules."""
        self._drop(lambda kept: True)

    def _drop(self, unwanted: Callable[[_Kept], bool]) -> None:
        for session, own in list(self._kept.items()):
            dropped = [kept for kept in own if unwanted(kept)]
            if dropped:
                self._keep(session, [kept for kept in own if kept not in dropped])
            for kept in dropped:
                kept.connection.close()

    def _keep(self, session: str, kept: list[_Kept]) -> None:
        self._count += len(kept) - len(self._kept.pop(session, []))
        if kept:
            self._kept[session] = kept


async def _proxy_credential(permit: Permit, route: Route) -> Credential | None:
    if route.proxy is None:
        return None
    return await route.proxy.credential(Need(permit, route.config, "", write=False))


def _way(route: Route, credential: Credential | None) -> Way:
    config = route.config
    timeouts = config.timeouts
    return Way(config.address, route.tls, config.proxy, credential, timeouts.connect, timeouts.idle)
