"""Looks again, all the time, whether the rules of each sandbox are still the ones we loaded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from hostd.failures import Failed
from hostd.host import Host
from hostd.nft import loaded_hash
from hostd.sandbox import Sandbox

_log = Logger()
INTERVAL = 15.0


async def check_rules(host: Host, sandbox: Sandbox) -> str | None:
    """What is wrong with the sandbox's network, or None."""
    try:
        if await loaded_hash(host.programs, sandbox.network()) != sandbox.record.rules:
            return "its network rules were changed"
        found = await host.spawner.survey(sandbox.namespace)
    except Failed as problem:
        return str(problem)
    if found["interfaces"]:
        return f"its network got an interface: {', '.join(found['interfaces'])}"
    if found["sysctls"]:
        return f"a setting of its network was changed: {found['sysctls'][0]}"
    return None


class Watchdog:
    """One sandbox after the other, so that a round never costs more than one check at a time."""

    def __init__(
        self,
        host: Host,
        running: Callable[[], Iterable[Sandbox]],
        freeze: Callable[[Sandbox, str], Awaitable[None]],
        interval: float = INTERVAL,
    ) -> None:
        self._host = host
        self._running = running
        self._freeze = freeze
        self._interval = interval
        self._timer = host.reactor.callLater(interval, self._round)

    def stop(self) -> None:
        if self._timer.active():
            self._timer.cancel()

    def _round(self) -> None:
        done = Deferred.fromCoroutine(self._look_at_all())
        done.addErrback(lambda failure: _log.failure("the watchdog stumbled", failure))
        done.addBoth(lambda _: self._again())

    def _again(self) -> None:
        self._timer = self._host.reactor.callLater(self._interval, self._round)

    async def _look_at_all(self) -> None:
        for sandbox in list(self._running()):
            if sandbox.state != "running":
                continue
            wrong = await check_rules(self._host, sandbox)
            if wrong is not None and sandbox.state == "running":
                await self._freeze(sandbox, wrong)
