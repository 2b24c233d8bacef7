"""Checks at intervals whether each sandbox is as it was made, and is served.

A sandbox whose network rules, interfaces or settings were changed from outside is stopped; a
sidecar that does not answer is replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from twisted.internet.defer import DeferredSemaphore
from twisted.logger import Logger

from hostd.deferreds import cancel, in_background
from hostd.failures import Failed
from hostd.network.nft import loaded_hash
from hostd.sandbox.sandbox import Sandbox
from hostd.this_host import Host

_log = Logger()
_UNSEEN_FOR = 45.0
_AT_A_TIME = 4


async def what_is_wrong(host: Host, sandbox: Sandbox) -> str | None:
    """What has changed, or None; raises Failed when that could not be measured.

    The rules are read again only when the kernel has counted a change of them. The count is taken
    before they are read, so that a change in between is noticed in the next round.
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
    """Checks several sandboxes at a time; one that takes long to check or stop delays no other.

    A check that fails is repeated in the next rounds: the launcher may just have been killed. A
    sandbox whose rules could not be checked for long is stopped.
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
        cancel(self._timer)

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
        """Runs beside the round: a Docker that hangs does not delay the checks of rules."""
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
            except Failed as problem:  # its processes and rules are checked without Docker
                _log.warn("docker does not answer: {why}", why=str(problem))
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
        """Stopping a sandbox may take long because of its processes, so it holds no permit."""
        try:
            async with self._turns:
                if not sandbox.running:  # it ended meanwhile, and its namespace is closed
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
        except Exception as problem:  # noqa: BLE001 - an unforeseen error is a failed check as well
            none = isinstance(problem, Failed) and problem.code == "N102"  # no rules to read
            if none or now - since >= _UNSEEN_FOR:
                return str(problem)
            _log.warn("{name} was not checked: {why}", name=sandbox.plan.name, why=str(problem))
        self._unseen[sandbox.plan.id] = since
        return None
