"""Records of numbers: refusals that got no record of their own, and what other hosts were sent."""

from __future__ import annotations

from attrs import define

from broker.exchange.recording import record_or_log
from broker.sessions.sessions import Session, Sessions
from gitmoat.audit.events import DenialsSummarised, EgressUsed
from gitmoat.audit.journal import Journal


@define(eq=False)
class Summaries:
    _sessions: Sessions
    _journal: Journal

    def record_denials(self) -> None:
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
                event = EgressUsed(
                    sandbox=session.stored.sandbox,
                    session=session.stored.id,
                    to=place,
                    count=tally.count,
                    bytes_up=tally.bytes_up,
                    bytes_down=tally.bytes_down,
                )
                record_or_log(self._journal, event)
