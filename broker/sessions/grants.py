"""Who may begin and end a session, and the audit of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.exchange.recording import record_first, record_or_log
from broker.sessions.clocks import WallClock
from broker.sessions.sessions import RELEASED, UNRECORDED, Session, Sessions, is_renewable
from broker.sessions.store.interface import (
    CounterSeen,
    SessionKnown,
    State,
    StoredSession,
    StoreFailed,
)
from broker.sessions.turns import Turns, all_of
from gitmoat.audit.events import (
    GrantRefused,
    GrantRegistered,
    PolicyReplaced,
    SessionActivated,
    SessionEnded,
    SessionRenewed,
    SessionRevoked,
)
from gitmoat.audit.journal import Journal
from gitmoat.fault import Fault
from gitmoat.identity import grant as grants
from gitmoat.messages.host import Activate
from gitmoat.version import VERSION
from netpolicy.ceiling import exceeded, shortened
from netpolicy.format.document import PolicyError, policy_from_mapping
from netpolicy.format.reading import UnknownKey
from netpolicy.format.units import format_duration
from netpolicy.format.writing import policy_to_mapping
from netpolicy.policy import Ceiling, Policy

log = Logger()


@define(eq=False)
class Grants:
    """Grants come from enrolled hosts, for this broker, once; ends come from anybody in charge."""

    _sessions: Sessions
    _journal: Journal
    _now: Callable[[], float]
    _clock: WallClock
    audiences: list[str]  # our public keys: two while one takes the place of the other
    _boot: str
    _turns: Turns = field(factory=Turns, init=False)

    async def grant(self, host: str, key: bytes, signed: bytes, ceiling: Ceiling) -> Session:
        """Registers a session, closed; Fault S103 or S104 when the grant is not believed."""
        try:
            grant = grants.open_grant(signed, key)
        except grants.GrantRefused as refused:
            raise self._refuse(refused.code, refused.what, None) from None
        if (objection := self._objection(grant, host, ceiling)) is not None:
            raise self._refuse(*objection, grant)
        grant = _shortened(grant, ceiling)
        await self._end_earlier_boots(grant)
        async with self._turns.of((host, grant.sandbox)):
            return await self._register(grant)

    async def _register(self, grant: grants.Grant) -> Session:
        try:
            session = await self._sessions.register(self._stored(grant))
        except CounterSeen:
            raise self._refuse("S104", "the grant was used before", grant) from None
        except SessionKnown:
            raise self._refuse("S103", "the session or its key is known already", grant) from None
        over = self._sessions.over_for_good(grant.host, grant.sandbox)
        if over is not None:
            # Its key is known and ended, so that git in the sandbox is told why.
            await self._sessions.end(session, over)
            self._refuse("S101", f"the sandbox's session has ended: {over}", grant)
            return session
        await self._record_grant(session)
        return session

    def _objection(
        self, grant: grants.Grant, host: str, ceiling: Ceiling
    ) -> tuple[str, str] | None:
        """The code and the reason of a refusal."""
        if grant.audience not in self.audiences:
            return "S103", "the grant is for another broker"
        if grant.host != host:
            return "S103", "the grant is for another host"
        if behind := self._clock.behind():
            return "S108", f"the broker's clock is {behind} s earlier than it was"
        try:
            above = exceeded(policy_from_mapping(grant.scope), ceiling)
        except UnknownKey as error:  # the host is newer than this broker
            return "S106", f"this broker, version {VERSION}, does not know the key {error.path}"
        except PolicyError as error:
            return "S103", f"the scope is not a policy: {error}"
        if above is not None:
            return "S107", f"the scope is above the host's ceiling: {above}"
        return None

    def _end_earlier_boots(self, grant: grants.Grant) -> Deferred[None]:
        """A host that was rebooted has lost its sidecars, and with them every key of theirs."""
        own = [one for one in self._sessions.living() if one.stored.host == grant.host]
        earlier = [one for one in own if one.stored.host_boot != grant.boot_id]
        return self.release(earlier, "its host was rebooted")

    def _stored(self, grant: grants.Grant) -> StoredSession:
        now = self._now()
        latest = now + max(0, self._longest(grant) - grant.elapsed)
        return StoredSession(
            id=grant.session,
            key=grant.key,
            host=grant.host,
            host_boot=grant.boot_id,
            counter=grant.counter,
            sandbox=grant.sandbox,
            name=grant.name,
            runtime=grant.runtime,
            container=grant.container,
            netns=grant.netns,
            epoch=grant.epoch,
            scope=json.dumps(grant.scope),
            issued=grant.issued,
            ttl=grant.ttl,
            broker_boot=self._boot,
            deadline=min(now + grant.ttl, latest),
            latest=latest,
        )

    def _longest(self, grant: grants.Grant) -> int:
        return policy_from_mapping(grant.scope).session.max_ttl

    async def _record_grant(self, session: Session) -> None:
        """The session is closed and has no effect yet, so its record can follow it."""
        stored = session.stored
        event = GrantRegistered(sandbox=stored.sandbox, session=stored.id, name=stored.name)
        try:
            record_first(self._journal, event)
        except Fault:
            await self._sessions.end(session, UNRECORDED)
            raise

    def _refuse(self, code: str, what: str, grant: grants.Grant | None) -> Fault:
        sandbox = grant.sandbox if grant else None
        session = grant.session if grant else None
        event = GrantRefused(code=code, reason=what, sandbox=sandbox, session=session)
        record_or_log(self._journal, event)
        return Fault(code, what)

    async def replace_policy(self, host: str, key: bytes, signed: bytes, ceiling: Ceiling) -> int:
        """A grant for a session that runs: its scope is the session's from now on.

        How many connections were cut for it. Everything else about the session stays.
        """
        try:
            grant = grants.open_grant(signed, key)
        except grants.GrantRefused as refused:
            raise self._refuse(refused.code, refused.what, None) from None
        if (objection := self._objection(grant, host, ceiling)) is not None:
            raise self._refuse(*objection, grant)
        grant = _shortened(grant, ceiling)
        session = self.of_host(host, grant.session)
        if (grant.key, grant.sandbox) != (session.stored.key, session.stored.sandbox):
            raise self._refuse("S103", "the session has another key or sandbox", grant)
        async with self._turns.of(session.owner):
            _check_lives(session)
            policy = policy_from_mapping(grant.scope)
            self._record_policy(session, policy)
            try:
                cut = await self._sessions.rescope(session, grant.counter, policy)
            except CounterSeen:
                raise self._refuse("S104", "the grant was used before", grant) from None
            _check_lives(session)
            return cut

    def _record_policy(self, session: Session, policy: Policy) -> None:
        stored = session.stored
        event = PolicyReplaced(sandbox=stored.sandbox, session=stored.id, name=policy.name)
        record_first(self._journal, event)

    async def activate(self, host: str, place: Activate) -> Session:
        session = self.of_host(host, place.session)
        async with self._turns.of(session.owner):
            _check_lives(session)
            await self._activate(session, place)
            _check_lives(session)
        return session

    async def _activate(self, session: Session, place: Activate) -> None:
        stored = session.stored
        if place.netns != stored.netns:
            raise Fault("S103", "the network namespace is not the granted one")
        event = SessionActivated(
            sandbox=stored.sandbox,
            session=session.id,
            container=stored.container,
            pid=place.first,
            started=place.started,
            netns=place.netns,
            cgroup=place.cgroup,
            epoch=stored.epoch,
        )
        record_first(self._journal, event)
        await self._sessions.activate(session, place.pid, place.netns, place.cgroup)

    async def renew(
        self, host: str, sandbox: str, seconds: int, ceiling: Ceiling
    ) -> Session | None:
        """The owner lets a sandbox go on: its session, or None when it may be granted another.

        Fault S105 when that is longer than the policy's max_ttl, S107 when the policy is above the
        host's present ceiling, S101 after an end that is final.
        """
        async with self._turns.of((host, sandbox)):
            for session in self._sessions.of_sandbox(host, sandbox):
                if (overdue := session.overdue(self._now())) is not None:
                    await self.expire(session, overdue)
            living = self._sessions.of_sandbox(host, sandbox)
            for session in living:
                await self._extend(session, seconds, ceiling)
            if not living:
                await self._renew(host, sandbox, seconds)
                return None
            _check_lives(living[-1])
            return living[-1]

    async def _renew(self, host: str, sandbox: str, seconds: int) -> None:
        over = self._sessions.over_for_good(host, sandbox)
        if over is not None and not is_renewable(over):
            what = f"this sandbox's session has ended: {over}"
            fix = "save its files with `hostctl cp`, and start another sandbox"
            raise Fault("S101", what, "it cannot be renewed after that", fix)
        after = f"for {format_duration(seconds)}" + ("" if over is None else f", after: {over}")
        record_first(self._journal, SessionRenewed(sandbox=sandbox, reason=after))
        await self._sessions.renew(host, sandbox)

    async def _extend(self, session: Session, seconds: int, ceiling: Ceiling) -> None:
        if (above := exceeded(session.policy, ceiling)) is not None:
            raise Fault("S107", f"its policy is above the host's ceiling: {above}")
        most = shortened(session.policy, ceiling).session.max_ttl
        if seconds > most:
            longest = format_duration(most)
            raise Fault("S105", f"its policy lets this session last {longest} at most")
        sandbox, span = session.stored.sandbox, f"for {format_duration(seconds)}"
        event = SessionRenewed(sandbox=sandbox, session=session.id, reason=span)
        record_first(self._journal, event)
        await self._sessions.extend(session, seconds)

    def of_host(self, host: str, name: str) -> Session:
        """A host sees its own sessions only; others' look like none."""
        session = self._sessions.by_id(name)
        if session is None or session.stored.host != host:
            raise Fault("S103", "this host has no such session")
        return session

    def release(self, sessions: Iterable[Session], reason: str) -> Deferred[None]:
        """Their own host gives them back: the sandboxes may be granted others."""
        return self._end(sessions, RELEASED, reason, None)

    def revoke(
        self, sessions: Iterable[Session], reason: str, peer_uid: int | None = None
    ) -> Deferred[None]:
        """Somebody in charge ends them: the sandboxes get no others."""
        return self._end(sessions, "revoked", reason, peer_uid)

    def _end(
        self, sessions: Iterable[Session], how: str, reason: str, peer_uid: int | None
    ) -> Deferred[None]:
        """All of them now, also where one cannot be recorded or stored; that is told at the end."""
        ends = [self._end_one(session, how, reason, peer_uid) for session in sessions]
        return all_of(map(Deferred.fromCoroutine, ends))

    async def _end_one(self, session: Session, how: str, reason: str, peer_uid: int | None) -> None:
        """An audit that cannot be written does not keep a session alive."""
        if session.state is State.ENDED:
            return
        event = SessionRevoked(
            sandbox=session.stored.sandbox, session=session.id, reason=reason, peer_uid=peer_uid
        )
        try:
            record_first(self._journal, event)
        finally:
            await self._sessions.end(session, how)

    def expire(self, session: Session, reason: str) -> Deferred[None]:
        """It ends, and is on record, whatever the store says."""
        return Deferred.fromCoroutine(self._expire(session, reason))

    async def _expire(self, session: Session, reason: str) -> None:
        try:
            await self._sessions.end(session, reason)
        finally:
            self._record_end(session, reason)

    def _record_end(self, session: Session, reason: str) -> None:
        event = SessionEnded(sandbox=session.stored.sandbox, session=session.id, reason=reason)
        record_or_log(self._journal, event, durable=True)

    def sweep(self) -> None:
        """An end that cannot be stored keeps no other session from ending."""
        for session, reason in self._sessions.overdue():
            self.expire(session, reason).addErrback(_not_stored, session.id)


def _shortened(grant: grants.Grant, ceiling: Ceiling) -> grants.Grant:
    policy = policy_from_mapping(grant.scope)
    shorter = shortened(policy, ceiling)
    return grant if shorter == policy else evolve(grant, scope=policy_to_mapping(shorter))


def _check_lives(session: Session) -> None:
    if session.state is State.ENDED:
        raise Fault("S101", "this session has ended")


def _not_stored(failure: Failure, name: str) -> None:
    failure.trap(StoreFailed)
    log.error("end of session {id} not stored: {what}", id=name, what=str(failure.value))
