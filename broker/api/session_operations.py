"""What a session may ask besides what an exchange serves: to report what its sidecar saw."""

from __future__ import annotations

from broker.api.guard import guarded, send
from broker.api.reported import recorded
from broker.api.small_bodies import collect
from broker.context import Context
from broker.exchange.recording import record_first
from broker.exchange.refusals import json_reply
from broker.sessions.sessions import Session
from broker.sessions.store.interface import State
from gitmoat.audit.events import Event
from gitmoat.messages.report import REPORT_LIMIT, parse_report
from gitmoat.net.http.ends import Incoming

# Reports of what a verification was refused may come so much later, one a second.
REPORTS_LATE = 60.0


def report(context: Context, session: Session, incoming: Incoming) -> None:
    """Within the session's quota; beyond it a report is dropped, and the answer says so."""

    def told(data: bytes) -> None:
        stored = session.stored
        event = recorded(parse_report(data), stored.sandbox, stored.id)
        if session.state is not State.ACTIVE or session.reports.take(context.now()):
            send(incoming, json_reply(429, {"code": "G303", "what": "not recorded"}))
            return
        if event.verdict == "deny":
            _count_reported(context, session, event)
        record_first(context.journal, event, durable=False)
        send(incoming, json_reply(200, {}))

    collect(incoming, REPORT_LIMIT, guarded(incoming, told))


def _count_reported(context: Context, session: Session, event: Event) -> None:
    told = event.fields()
    count = told.get("count")
    number = count if isinstance(count, int) else 1
    if session.brake.lifted(context.now(), REPORTS_LATE):
        session.brake.total += number
    else:
        session.brake.refused(context.now(), number)
    context.metrics.reported(str(told.get("code", "")), number)
