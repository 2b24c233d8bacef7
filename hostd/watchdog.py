"""Looks again, all the time, whether each sandbox is still as we left it, and is still served.

Rules, interfaces and settings of its network that were changed from outside end its access; a
sidecar that does not answer is replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from hostd.failures import Failed
from hostd.host import Host
from hostd.nft import loaded_hash
from hostd.sandbox import Sandbox

_log = Logger()


async def _what_is_wrong(host: Host, sandbox: Sandbox) -> str | None:
    if await loaded_hash(host.programs, sandbox.network()) != sandbox.record.rules:
        return "its network rules were changed"
    found = await host.spawner.survey(sandbox.namespace)
    if found["interfaces"]:
        return f"its network got an interface: {', '.join(found['interfaces'])}"
    if found["sysctls"]:
        return f"a setting of its network was changed: {found['sysctls'][0]}"
    return None


async def check_network(host: Host, sandbox: Sandbox) -> str | None:
    """What is wrong with the sandbox's network, or None.

    A look that fails is taken once more: a zygote that was just killed says nothing about the
    sandbox. Rules that still cannot be read then are not known to hold.
    """
    try:
        return await _what_is_wrong(host, sandbox)
    except Failed as problem:
        _log.info("looking again at {name}: {why}", name=sandbox.plan.name, why=str(problem))
    try:
        return await _what_is_wrong(host, sandbox)
    except Failed as problem:
        return str(problem)


class Watchdog:
    """One sandbox after the other, so that a round never costs more than one check at a time."""

    def __init__(
        self,
        host: Host,
        running: Callable[[], Iterable[Sandbox]],
        freeze: Callable[[Sandbox, str], Awaitable[None]],
        interval: float,
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
        self._host.spawner.reap_strays()
        self._host.grants.close_overdue()
        done = Deferred.fromCoroutine(self._look_at_all())
        done.addErrback(lambda failure: _log.failure("the watchdog stumbled", failure))
        done.addBoth(lambda _: self._again())

    def _again(self) -> None:
        self._timer = self._host.reactor.callLater(self._interval, self._round)

    async def _look_at_all(self) -> None:
        for sandbox in list(self._running()):
            if sandbox.state != "running":
                continue
            if sandbox.sidecar is not None:
                sandbox.sidecar.check()
            wrong = await check_network(self._host, sandbox)
            if wrong is not None and sandbox.state == "running":
                await self._freeze(sandbox, wrong)
