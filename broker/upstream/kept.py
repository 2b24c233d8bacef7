"""Connections to upstreams, kept open for a while for the session and credential that used them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from broker.credentials.providers.credential import Credential
from broker.sessions.running import Permit
from broker.upstream.routes import Server
from gitmoat.net.http.ends import ClientConnection

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
    server: Server
    credential: Credential

    def same_as(self, other: User) -> bool:
        return self.server is other.server and self.credential.same_as(other.credential)


@define(eq=False)
class _Kept:
    user: User
    connection: ClientConnection
    since: float


@define(eq=False)
class Upstreams:
    """`take`, or dial; then `release`. A connection serves one request at a time, of one user."""

    _now: Callable[[], float]
    _kept: dict[str, list[_Kept]] = field(factory=dict, init=False)  # by session
    _count: int = field(default=0, init=False)

    def take(self, permit: Permit, user: User, repeatable: bool) -> ClientConnection | None:
        """An idle connection of this user; Unavailable (S101) when the permit is over."""
        permit.check()
        oldest = self._now() - (KEEP_SECONDS if repeatable else FRESH_SECONDS)
        own = self._kept.get(user.session, [])
        for kept in reversed(own):
            if kept.since >= oldest and kept.connection.idle and kept.user.same_as(user):
                self._keep(user.session, [each for each in own if each is not kept])
                return kept.connection
        return None

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
