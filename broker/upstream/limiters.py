"""The governors in force: what each request may ask of its upstream, and what is learnt from it.

They outlive a reload, which must not undo a rest that an upstream asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Protocol

from attrs import define, field, frozen

from broker.sessions.sessions import Session
from broker.upstream.limiter import Breaker, CredentialBudget, Rest, asked_rest
from broker.upstream.routes import Server
from gitmoat.wire.http.heads import ResponseHead


@define(eq=False)
class UpstreamLimiters:
    """One breaker for each upstream, one budget for each credential there."""

    per_minute: int
    now: Callable[[], float]
    wall: Callable[[], float] = time.time
    _budgets: dict[tuple[str, str], CredentialBudget] = field(factory=dict, init=False)
    _breakers: dict[str, Breaker] = field(factory=dict, init=False)

    def budget(self, server: Server) -> CredentialBudget:
        """By the names of upstream and provider: there are as many as are configured."""
        key = server.config.name, server.config.provider
        found = self._budgets.get(key)
        if found is None:
            found = self._budgets[key] = CredentialBudget(self.per_minute)
        return found

    def breaker(self, server: Server) -> Breaker:
        found = self._breakers.get(server.config.name)
        if found is None:
            found = self._breakers[server.config.name] = Breaker()
        return found

    def resting(self, server: Server) -> int:
        """Seconds for which the upstream wants nobody's requests with this credential."""
        return self.budget(server).resting(self.now())

    def of(self, server: Server, session: Session, tier: str, repository: str) -> UpstreamLimiter:
        return UpstreamLimiter(self, server, session, (tier, server.config.name, repository))


class Limiter(Protocol):
    """Of one request: whether the far end may be asked now, and what its answer says of that."""

    def ask(self) -> Rest | None: ...
    def unreachable(self) -> None: ...
    def reached(self) -> None: ...
    def answered(self, head: ResponseHead) -> None: ...
    def lost(self) -> None: ...

    @property
    def resting(self) -> int: ...


class Unlimited:
    """Of a host that nobody configured: what its answers say of its limits is the client's."""

    resting = 0

    def ask(self) -> None:
        """It may be asked."""

    def unreachable(self) -> None: ...
    def reached(self) -> None: ...
    def answered(self, head: ResponseHead) -> None: ...
    def lost(self) -> None: ...


@frozen(eq=False)
class UpstreamLimiter:
    """Of one request. `key` is the repository as one tier of one session knows it.

    A connection that cannot be made says something of the upstream: no byte of the request was
    sent yet. What comes after may be the answer to what a sandbox sent, and counts for it alone.
    """

    _all: UpstreamLimiters
    _server: Server
    _session: Session
    _key: Hashable

    def ask(self) -> Rest | None:
        """None when the request may go up now; it is counted."""
        now, owner = self._all.now(), self._session.owner
        if rest := self._session.breakers.rest(self._key, now):
            return rest
        breaker, budget = self._all.breaker(self._server), self._all.budget(self._server)
        return breaker.rest(now, owner) or budget.take(owner, now)

    def unreachable(self) -> None:
        """It could not be connected to, or the TLS handshake failed."""
        self._all.breaker(self._server).failed(self._all.now())

    def reached(self) -> None:
        self._all.breaker(self._server).worked()

    def answered(self, head: ResponseHead) -> None:
        now, wall = self._all.now(), self._all.wall()
        self._all.budget(self._server).heard(self._session.owner, head, now, wall)
        if head.status < 500:
            self._session.breakers.worked(self._key)
            return
        rest = asked_rest(head, wall) if head.status == 503 else 0
        self._session.breakers.failed(self._key, now, "U110", rest)

    def lost(self) -> None:
        """It took the request, or part of it, and gave no answer."""
        self._session.breakers.failed(self._key, self._all.now(), "U101")

    @property
    def resting(self) -> int:
        """Seconds after which asking again makes sense; 0 when nobody said so."""
        now = self._all.now()
        left = self._session.breakers.left(self._key, now)
        return max(left, self._all.budget(self._server).resting(now, self._session.owner))
