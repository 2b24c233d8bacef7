"""Looks again, all the time, whether each sandbox is still as we left it, and is still served.

Rules, interfaces and settings of its network that were changed from outside end its access; a
sidecar that does not answer is replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from twisted.internet.defer import DeferredSemaphore
from twisted.logger import Logger

from hostd.failures import Failed
from hostd.host import Host
from hostd.nft import loaded_hash
from hostd.sandbox import Sandbox
from hostd.waiting import in_background

_log = Logger()
_UNSEEN_FOR = 45.0
_AT_A_TIME = 4


async def what_is_wrong(host: Host, sandbox: Sandbox) -> str | None:
    """Failed when that could not be seen.

    Rules are read again only when the kernel has counted a change of them. The number is from
    before the reading, so that a change in between has another.
    """
    found = await host.launcher.ask_survey(sandbox.namespace)
    if sandbox.seen != (seen := (found.generation, sandbox.record.rules)):
        if await loaded_hash(host.programs, sandbox.network()) != sandbox.record.rules:
            return "its network rules were changed"
        sandbox.seen = seen
    if found.interfaces:
        return f"its network got an interface: {', '.join(found.interfaces)}"
    if found.sysctls:
        return f"a setting of its network was changed: {found.sysctls[0]}"
    return None


class Watchdog:
    """A few sandboxes at a time; a look or an end that takes long delays no other sandbox's.

    A look that fails is taken again in the next rounds: a launcher that was just killed says
    nothing about the sandbox. Rules that cannot be seen for long are not known to hold.
    """

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
        self._unseen: dict[str, float] = {}
        self._under_way: set[str] = set()
        self._turns = DeferredSemaphore(_AT_A_TIME)
        self._asking = False
        self._timer = host.reactor.callLater(interval, self._round)

    def stop(self) -> None:
        if self._timer.active():
            self._timer.cancel()

    def _round(self) -> None:
        self._timer = self._host.reactor.callLater(self._interval, self._round)
        self._host.reap_unawaited()
        self._host.grants.close_overdue()
        self._host.containers.remove_overdue()
        if not self._asking:
            in_background(self._reconcile())
        running = [each for each in self._running() if each.running]
        ids = {each.plan.id for each in running}
        self._unseen = {each: since for each, since in self._unseen.items() if each in ids}
        for sandbox in running:
            self._begin(sandbox)

    async def _reconcile(self) -> None:
        """Beside the round: a Docker that hangs does not keep us from looking at the rules."""
        self._asking = True
        try:
            await self._ask_docker()
        finally:
            self._asking = False

    async def _ask_docker(self) -> None:
        for sandbox in list(self._running()):
            if not sandbox.running or sandbox.holder is None:
                continue
            try:
                wrong = await self._host.containers.what_is_wrong(sandbox)
            except Failed as problem:  # its processes and rules are watched without Docker's help
                _log.warn("docker says nothing: {why}", why=str(problem))
                return
            if wrong is not None and sandbox.running:
                in_background(self._freeze(sandbox, wrong))

    def _begin(self, sandbox: Sandbox) -> None:
        if sandbox.sidecar is not None:
            sandbox.sidecar.check()
        if sandbox.plan.id not in self._under_way:
            self._under_way.add(sandbox.plan.id)
            in_background(self._attend_to(sandbox))

    async def _attend_to(self, sandbox: Sandbox) -> None:
        """To end one takes as long as its processes make it take: that is in nobody's turn."""
        try:
            async with self._turns:
                if not sandbox.running:  # it ended while it waited; its namespace is closed
                    return
                wrong = await self._look_at(sandbox)
            if wrong is not None and sandbox.running:
                await self._freeze(sandbox, wrong)
        finally:
            self._under_way.discard(sandbox.plan.id)

    async def _look_at(self, sandbox: Sandbox) -> str | None:
        now: float = self._host.reactor.seconds()
        since = self._unseen.pop(sandbox.plan.id, now)
        try:
            return await what_is_wrong(self._host, sandbox)
        except Exception as problem:  # noqa: BLE001 - what we did not foresee is no reason to trust
            none = isinstance(problem, Failed) and problem.code == "N102"  # no rules to read
            if none or now - since >= _UNSEEN_FOR:
                return str(problem)
            _log.warn("{name} was not seen: {why}", name=sandbox.plan.name, why=str(problem))
        self._unseen[sandbox.plan.id] = since
        return None
