"""The governors in force: one budget for each credential, one breaker for each upstream.

They outlive a reload, which must not undo a rest that an upstream asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

from broker.governor import Breaker, CredentialBudget, Rest
from broker.routes import Route
from gitwire.http import ResponseHead


@define(eq=False)
class Governors:
    per_minute: int
    _now: Callable[[], float]
    _wall: Callable[[], float] = time.time
    _budgets: dict[str, CredentialBudget] = field(factory=dict, init=False)
    _breakers: dict[str, Breaker] = field(factory=dict, init=False)

    def budget(self, route: Route) -> CredentialBudget:
        """By the name of the provider: there are as many as are configured."""
        found = self._budgets.get(route.config.provider)
        if found is None:
            found = self._budgets[route.config.provider] = CredentialBudget(self.per_minute)
        return found

    def breaker(self, route: Route) -> Breaker:
        found = self._breakers.get(route.config.name)
        if found is None:
            found = self._breakers[route.config.name] = Breaker()
        return found

    def ask(self, route: Route) -> Rest | None:
        """None when a request may go up now; it is counted."""
        now = self._now()
        return self.breaker(route).rest(now) or self.budget(route).take(now)

    def answered(self, route: Route, head: ResponseHead) -> None:
        self.budget(route).heard(head, self._now(), self._wall())
        if head.status >= 500:
            self.failed(route)
        else:
            self.breaker(route).worked()

    def failed(self, route: Route) -> None:
        """It could not be reached, was lost, or says itself that it is broken."""
        self.breaker(route).failed(self._now())

    def resting(self, route: Route) -> int:
        return self.budget(route).resting(self._now())
