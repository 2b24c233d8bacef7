"""Who may begin and end a session, and the audit of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from attrs import define
from twisted.logger import Logger

from audit.events import (
    DenialsSummarised,
    GrantRefused,
    GrantRegistered,
    SessionActivated,
    SessionEnded,
    SessionRevoked,
)
from audit.journal import Journal, JournalUnavailable
from broker.errors import Problem
from broker.sessions import RELEASED, UNRECORDED, Session, Sessions
from broker.store.interface import CounterSeen, State, StoredSession
from identity import grant as grants
from netpolicy.document import PolicyError

log = Logger()


def unrecorded(error: JournalUnavailable) -> Problem:
    return Problem(
        error.code, "the audit journal cannot be written", error.what, "free space on its disk"
    )


@define(eq=False)
class Authority:
    """Grants come from enrolled hosts, for this broker, once; ends come from anybody in charge."""

    _sessions: Sessions
    _journal: Journal
    _now: Callable[[], float]
    _audience: str
    _boot: str

    def grant(self, host: str, key: bytes, signed: bytes) -> Session:
        """Registers a session, closed; Problem S103 or S104 when the grant is not believed."""
        try:
            grant = grants.open_grant(signed, key, self._audience)
        except grants.GrantRefused as refused:
            raise self._refuse(refused.code, refused.what, None) from None
        if grant.host != host:
            raise self._refuse("S103", "the grant is for another host", grant)
        try:
            session = self._sessions.register(self._stored(grant))
        except CounterSeen:
            raise self._refuse("S104", "the grant was used before", grant) from None
        except PolicyError as error:
            raise self._refuse("S103", f"the scope is not a policy: {error}", grant) from None
        except sqlite3.IntegrityError:
            raise self._refuse("S103", "the session or its key is known already", grant) from None
        over = self._sessions.over_for_good(host, grant.sandbox)
        if over is not None:
            # Its key is known and ended, so that git in the sandbox is told why.
            self._sessions.end(session, over)
            self._refuse("S101", f"the sandbox's session has ended: {over}", grant)
            return session
        self._record_grant(session)
        return session

    def _stored(self, grant: grants.Grant) -> StoredSession:
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
            deadline=self._now() + grant.ttl,
        )

    def _record_grant(self, session: Session) -> None:
        """The session is closed and has no effect yet, so its record can follow it."""
        stored = session.stored
        event = GrantRegistered(sandbox=stored.sandbox, session=stored.id, name=stored.name)
        try:
            self._journal.record(event)
        except JournalUnavailable as error:
            self._sessions.end(session, UNRECORDED)
            raise unrecorded(error) from None

    def _refuse(self, code: str, what: str, grant: grants.Grant | None) -> Problem:
        sandbox = grant.sandbox if grant else None
        session = grant.session if grant else None
        event = GrantRefused(code=code, reason=what, sandbox=sandbox, session=session)
        try:
            self._journal.record(event, durable=False)
        except JournalUnavailable as error:
            log.error("refused grant not recorded: {what}", what=error.what)
        return Problem(code, what)

    def activate(self, host: str, name: str, pid: int, netns: int, cgroup: int | None) -> Session:
        session = self.of_host(host, name)
        if session.state is State.ENDED:
            raise Problem("S101", "this session has ended")
        if netns != session.stored.netns:
            raise Problem("S103", "the network namespace is not the granted one")
        event = SessionActivated(sandbox=session.stored.sandbox, session=session.id)
        try:
            self._journal.record(event)
        except JournalUnavailable as error:
            raise unrecorded(error) from None
        self._sessions.activate(session, pid, netns, cgroup)
        return session

    def of_host(self, host: str, name: str) -> Session:
        """A host sees its own sessions only; others' look like none."""
        session = self._sessions.by_id(name)
        if session is None or session.stored.host != host:
            raise Problem("S103", "this host has no such session")
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
            self._journal.record(event)
        except JournalUnavailable as error:
            raise unrecorded(error) from None
        finally:
            self._sessions.end(session, how)

    def expire(self, session: Session, reason: str) -> None:
        event = SessionEnded(sandbox=session.stored.sandbox, session=session.id, reason=reason)
        self._sessions.end(session, reason)
        try:
            self._journal.record(event)
        except JournalUnavailable as error:
            log.error("end of session {id} not recorded: {what}", id=session.id, what=error.what)

    def summarise(self) -> None:
        """Writes the numbers of the refusals that got no record of their own."""
        for session in self._sessions.everyone():
            for code, count in session.denials.summary().items():
                self._record_denials(session, code, count)

    def _record_denials(self, session: Session, code: str, count: int) -> None:
        stored = session.stored
        event = DenialsSummarised(sandbox=stored.sandbox, session=stored.id, code=code, count=count)
        try:
            self._journal.record(event, durable=False)
        except JournalUnavailable as error:
            log.error("{count} refusals not recorded: {what}", count=count, what=error.what)

    def sweep(self) -> None:
        for session, reason in self._sessions.overdue():
            self.expire(session, reason)
