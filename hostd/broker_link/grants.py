"""Signs the grants of this host's sandboxes, and registers them with the broker."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from gitmoat.audit.events import GrantIssued
from gitmoat.audit.journal import Journal
from gitmoat.boot import boot_id, boot_seconds
from gitmoat.identity.grant import Grant, sign_grant
from gitmoat.identity.signed_report import sign_report
from gitmoat.messages.host import Activate, Renew, Revoke, Sessions, Verifying
from hostd.broker_link.broker_client import BrokerClient
from hostd.broker_link.host_keys import Keys
from hostd.failures import Failed
from hostd.sandbox.sandbox import Sandbox
from netpolicy.format.writing import policy_to_mapping

_log = Logger()


class Grants:
    """One grant at a time: the broker refuses a counter that is not above the last one."""

    def __init__(self, host: str, keys: Keys, broker: BrokerClient, journal: Journal) -> None:
        self.host = host
        self._keys = keys
        self._broker = broker
        self._journal = journal
        self._lock = DeferredLock()
        # Sandboxes whose sessions the broker has not yet been told to end, and the reasons.
        self._unclosed: dict[str, str] = {}

    def sign_report(self, report: Mapping[str, Any]) -> dict[str, Any]:
        return sign_report(report, self._keys.host)

    async def register(self, sandbox: Sandbox, public_key: bytes) -> str:
        """Registers a closed session for this key; `activate` opens it."""
        async with self._lock:
            if sandbox.plan.id in self._unclosed:  # told later it would end the new session too
                await self._settle(sandbox.plan.id)
            return await self._register(sandbox, public_key)

    async def _register(self, sandbox: Sandbox, public_key: bytes) -> str:
        plan = sandbox.plan
        elapsed = boot_seconds() - sandbox.record.began
        remaining = int(sandbox.record.ttl - elapsed)
        if remaining <= 0:
            raise Failed("S101", "the sandbox's session has ended")
        if len(self._keys.pins) > 1:  # a new connection shows which of the two the broker has
            await self._broker.healthy()
        grant = self._grant(sandbox, secrets.token_hex(12), public_key, remaining, elapsed)
        self._journal.record(GrantIssued(sandbox=plan.id, session=grant.session, name=plan.name))
        await self._broker.post("/host/grant", sign_grant(grant, self._keys.host))
        sandbox.record = evolve(sandbox.record, epoch=grant.epoch)
        return grant.session

    async def replace_policy(self, sandbox: Sandbox, session: str, public_key: bytes) -> int:
        """Registers the sandbox's present policy for its session; returns how many connections
        were cut."""
        async with self._lock:
            if len(self._keys.pins) > 1:
                await self._broker.healthy()
            elapsed = boot_seconds() - sandbox.record.began
            left = max(1, int(sandbox.record.ttl - elapsed))
            grant = self._grant(sandbox, session, public_key, left, elapsed)
            self._journal.record(
                GrantIssued(sandbox=grant.sandbox, session=session, name=grant.name)
            )
            answer = await self._broker.post("/host/policy", sign_grant(grant, self._keys.host))
        return int(answer.get("cut", 0))

    def _grant(
        self, sandbox: Sandbox, session: str, public_key: bytes, remaining: int, elapsed: float
    ) -> Grant:
        plan = sandbox.plan
        return Grant(
            host=self.host,
            boot_id=boot_id(),
            # CLOCK_MONOTONIC rises within one boot, also when hostd is restarted, without a file.
            counter=time.monotonic_ns(),
            session=session,
            key=public_key,
            sandbox=plan.id,
            name=plan.name,
            runtime=plan.runtime,
            container=sandbox.container.id if sandbox.container else None,
            netns=sandbox.record.netns,
            epoch=sandbox.record.epoch + 1,
            scope=policy_to_mapping(plan.policy),
            ttl=remaining,
            elapsed=max(0, int(elapsed)),
            issued=int(time.time()),
            audience=self._keys.audience,
        )

    async def activate(self, sandbox: Sandbox, session: str, pid: int) -> None:
        """A session that was revoked meanwhile stays ended; the sidecar then answers S101."""
        container = sandbox.container
        place = Activate(
            session=session,
            pid=pid,
            netns=sandbox.record.netns,
            cgroup=container.cgroup if container else None,
            first=sandbox.first.pid if sandbox.first else None,
            started=(container.started or None) if container else None,
        )
        try:
            await self._broker.tell("/host/activate", place)
        except Failed as problem:
            if problem.code != "S101":
                raise
            _log.warn("the session of {id} has ended at the broker", id=sandbox.plan.id)

    async def verifying(self, session: str, seconds: int) -> None:
        """If the broker cannot be told, it slows refusals down as always."""
        try:
            asked = Verifying(session=session, seconds=seconds)
            await self._broker.tell("/host/verifying", asked)
        except Failed as problem:
            _log.info("verification not announced: {why}", why=str(problem))

    async def renew(self, sandbox: str, seconds: int) -> tuple[dict[str, Any], bool]:
        """The new times for its record, which a new sidecar's session gets too; and whether the
        session goes on, or the sandbox needs another."""
        answer = await self._broker.tell("/host/renew", Renew(sandbox=sandbox, ttl=seconds))
        left = int(answer["ttl"])
        life = {"began": boot_seconds(), "ttl": left, "expires": time.time() + left}
        return life, answer.get("session") is not None

    async def sessions(self, sandboxes: list[str]) -> dict[str, Any]:
        """How the sessions of these sandboxes stand, as far as the broker knows of any."""
        answer = await self._broker.tell("/host/sessions", Sessions(sandboxes=tuple(sandboxes)))
        found = answer.get("sessions")
        return found if isinstance(found, dict) else {}

    async def close(self, session: str, reason: str) -> None:
        try:
            await self._broker.tell("/host/revoke", Revoke(session=session, reason=reason))
        except Failed as problem:
            if problem.code != "S103":  # a session that the broker does not know has ended
                raise

    async def close_sandbox(self, sandbox: str, reason: str) -> None:
        """Ends every session of a sandbox; if the broker cannot be told now, it is told later."""
        self._unclosed[sandbox] = reason
        try:
            await self._settle(sandbox)
        except Failed as problem:
            _log.info("sessions of {id} not ended yet: {why}", id=sandbox, why=str(problem))

    def close_overdue(self) -> None:
        """Tells the broker which sandboxes ended while it could not be reached."""
        for sandbox in list(self._unclosed):
            done = Deferred.fromCoroutine(self._settle_in_turn(sandbox))
            done.addErrback(lambda failure: failure.trap(Failed))

    async def _settle_in_turn(self, sandbox: str) -> None:
        """Waits while a grant is registered: it may be the same sandbox's next one."""
        async with self._lock:
            if sandbox in self._unclosed:
                await self._settle(sandbox)

    async def _settle(self, sandbox: str) -> None:
        wanted = Revoke(sandbox=sandbox, reason=self._unclosed[sandbox])
        await self._broker.tell("/host/revoke", wanted)
        self._unclosed.pop(sandbox, None)
