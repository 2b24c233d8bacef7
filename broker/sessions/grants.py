"""Who may begin and end a session, and the audit of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from attrs import define, evolve
from twisted.logger import Logger

from broker.exchange.recording import record_first, record_or_log
from broker.sessions.clocks import WallClock
from broker.sessions.egress_use import Tally
from broker.sessions.sessions import RELEASED, UNRECORDED, Session, Sessions, is_renewable
from broker.sessions.store.interface import (
    CounterSeen,
    SessionKnown,
    State,
    StoredSession,
    StoreFailed,
)
from gitmoat.audit.events import (
    DenialsSummarised,
    EgressUsed,
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

    def grant(self, host: str, key: bytes, signed: bytes, ceiling: Ceiling) -> Session:
        """Registers a session, closed; Fault S103 or S104 when the grant is not believed."""
        try:
            grant = grants.open_grant(signed, key)
        except grants.GrantRefused as refused:
            raise self._refuse(refused.code, refused.what, None) from None
        if (objection := self._objection(grant, host, ceiling)) is not None:
            raise self._refuse(*objection, grant)
        grant = _shortened(grant, ceiling)
        self._end_earlier_boots(grant)
        try:
            session = self._sessions.register(self._stored(grant))
        except CounterSeen:
            raise self._refuse("S104", "the grant was used before", grant) from None
        except SessionKnown:
            raise self._refuse("S103", "the session or its key is known already", grant) from None
        over = self._sessions.over_for_good(host, grant.sandbox)
        if over is not None:
            # Its key is known and ended, so that git in the sandbox is told why.
            self._sessions.end(session, over)
            self._refuse("S101", f"the sandbox's session has ended: {over}", grant)
            return session
        self._record_grant(session)
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

    def _end_earlier_boots(self, grant: grants.Grant) -> None:
        """A host that was rebooted has lost its sidecars, and with them every key of theirs."""
        for session in self._sessions.living():
            stored = session.stored
            if stored.host == grant.host and stored.host_boot != grant.boot_id:
                self.release(session, "its host was rebooted")

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

    def _record_grant(self, session: Session) -> None:
        """The session is closed and has no effect yet, so its record can follow it."""
        stored = session.stored
        event = GrantRegistered(sandbox=stored.sandbox, session=stored.id, name=stored.name)
        try:
            record_first(self._journal, event)
        except Fault:
            self._sessions.end(session, UNRECORDED)
            raise

    def _refuse(self, code: str, what: str, grant: grants.Grant | None) -> Fault:
        sandbox = grant.sandbox if grant else None
        session = grant.session if grant else None
        event = GrantRefused(code=code, reason=what, sandbox=sandbox, session=session)
        record_or_log(self._journal, event)
        return Fault(code, what)

    def replace_policy(self, host: str, key: bytes, signed: bytes, ceiling: Ceiling) -> int:
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
        if session.state is State.ENDED:
            raise Fault("S101", "this session has ended")
        policy = policy_from_mapping(grant.scope)
        self._record_policy(session, policy)
        try:
            return self._sessions.rescope(session, grant.counter, policy)
        except CounterSeen:
            raise self._refuse("S104", "the grant was used before", grant) from None

    def _record_policy(self, session: Session, policy: Policy) -> None:
        stored = session.stored
        event = PolicyReplaced(sandbox=stored.sandbox, session=stored.id, name=policy.name)
        record_first(self._journal, event)

    def activate(self, host: str, place: Activate) -> Session:
        session = self.of_host(host, place.session)
        if session.state is State.ENDED:
            raise Fault("S101", "this session has ended")
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
        self._sessions.activate(session, place.pid, place.netns, place.cgroup)
        return session

    def renew(self, host: str, sandbox: str, seconds: int) -> Session | None:
        """The owner lets a sandbox go on: its session, or None when it may be granted another.

        Fault S105 when that is longer than the policy's max_ttl, S101 after an end that is final.
        """
        for session in self._sessions.of_sandbox(host, sandbox):
            if (overdue := session.overdue(self._now())) is not None:
                self.expire(session, overdue)
        living = self._sessions.of_sandbox(host, sandbox)
        for session in living:
            self._renew(session, seconds)
        if living:
            return living[-1]
        over = self._sessions.over_for_good(host, sandbox)
        if over is not None and not is_renewable(over):
            raise Fault("S101", f"this sandbox's session has ended for good: {over}")
        after = f"for {format_duration(seconds)}" + ("" if over is None else f", after: {over}")
        record_first(self._journal, SessionRenewed(sandbox=sandbox, reason=after))
        self._sessions.renew(host, sandbox)
        return None

    def _renew(self, session: Session, seconds: int) -> None:
        most = session.policy.session.max_ttl
        if seconds > most:
            raise Fault(
                "S105", f"its policy lets this session last {format_duration(most)} at most"
            )
        event = SessionRenewed(
            sandbox=session.stored.sandbox,
            session=session.id,
            reason=f"for {format_duration(seconds)}",
        )
        record_first(self._journal, event)
        self._sessions.extend(session, seconds)

    def of_host(self, host: str, name: str) -> Session:
        """A host sees its own sessions only; others' look like none."""
        session = self._sessions.by_id(name)
        if session is None or session.stored.host != host:
            raise Fault("S103", "this host has no such session")
        return session

    def release(self, session: Session, reason: str) -> None:
        """Its own host gives it back: the sandbox may be granted another."""
        self._end(session, RELEASED, reason, None)

    def revoke(self, session: Session, reason: str, peer_uid: int | None = None) -> None:
        """Somebody in charge ends it: the sandbox gets no other."""
        self._end(session, "revoked", reason, peer_uid)

    def _end(self, session: Session, how: str, reason: str, peer_uid: int | None) -> None:
        """Now. An audit that cannot be written does not keep a session alive."""
        if session.state is State.ENDED:
            return
        event = SessionRevoked(
            sandbox=session.stored.sandbox, session=session.id, reason=reason, peer_uid=peer_uid
        )
        try:
            record_first(self._journal, event)
        finally:
            self._sessions.end(session, how)

    def expire(self, session: Session, reason: str) -> None:
        """It ends, and is on record, whatever the store says."""
        try:
            self._sessions.end(session, reason)
        finally:
            self._record_end(session, reason)

    def _record_end(self, session: Session, reason: str) -> None:
        event = SessionEnded(sandbox=session.stored.sandbox, session=session.id, reason=reason)
        record_or_log(self._journal, event, durable=True)

    def summarise(self) -> None:
        """Writes the numbers of the refusals that got no record of their own."""
        for session in self._sessions.everyone():
            for code, count in session.denials.summary().items():
                self._record_denials(session, code, count)

    def _record_denials(self, session: Session, code: str, count: int) -> None:
        stored = session.stored
        event = DenialsSummarised(sandbox=stored.sandbox, session=stored.id, code=code, count=count)
        record_or_log(self._journal, event)

    def record_use(self) -> None:
        """What was moved to other hosts since the last time, one record for each host."""
        for session in self._sessions.everyone():
            for place, tally in session.egress.take():
                self._record_tally(session.stored, place, tally)

    def _record_tally(self, stored: StoredSession, place: str, tally: Tally) -> None:
        event = EgressUsed(
            sandbox=stored.sandbox,
            session=stored.id,
            to=place,
            count=tally.count,
            bytes_up=tally.bytes_up,
            bytes_down=tally.bytes_down,
        )
        record_or_log(self._journal, event)

    def sweep(self) -> None:
        """An end that cannot be stored keeps no other session from ending."""
        for session, reason in self._sessions.overdue():
            try:
                self.expire(session, reason)
            except StoreFailed as error:
                log.error("end of session {id} not stored: {what}", id=session.id, what=str(error))


def _shortened(grant: grants.Grant, ceiling: Ceiling) -> grants.Grant:
    policy = policy_from_mapping(grant.scope)
    shorter = shortened(policy, ceiling)
    return grant if shorter == policy else evolve(grant, scope=policy_to_mapping(shorter))
