"""What a session may ask: git, and to report what its sidecar saw."""

from __future__ import annotations

from typing import assert_never

from audit.events import Event
from audit.journal import JournalUnavailable
from broker.authority import unrecorded
from broker.bodies import collect
from broker.case import Case
from broker.desk import Desk
from broker.gate import Asked, Envelope, read_envelope
from broker.git_operation import GitOperation
from broker.guard import guarded, send
from broker.refusals import json_reply, lfs_reply, text_reply
from broker.reports import recorded
from broker.sessions import Session
from broker.store.interface import State
from gitmoat.messages.report import REPORT_LIMIT, parse_report
from gitwire.errors import Malformed
from gitwire.smarthttp import (
    Advertise,
    Fetch,
    GitRequest,
    LfsRequest,
    Push,
    Unserved,
    classify,
)
from netpolicy.explain import refusal_lines
from streams.http import Incoming

GIT_PREFIX = b"/git/"
# Reports of what a verification was refused may come so much later, one a second.
REPORTS_LATE = 60.0


def serve_git(desk: Desk, session: Session, incoming: Incoming) -> None:
    """Malformed is answered, with the end of the connection, by whoever called us."""
    envelope = read_envelope(incoming.head)
    request = _classify(incoming)
    match request:
        case Advertise() | Fetch() | Push():
            _begin(desk, session, incoming, request, envelope)
        case LfsRequest():
            lines = refusal_lines("G102", envelope.request_id, session.policy, envelope.tier)
            send(incoming, lfs_reply(lines, envelope.request_id))
        case Unserved():
            _refuse(session, incoming, envelope, "G103")
        case None:
            _refuse(session, incoming, envelope, "G101")
        case _:
            assert_never(request)


def _classify(incoming: Incoming) -> GitRequest | LfsRequest | Unserved | None:
    """None for a path that names no repository: it is answered like an unknown one."""
    try:
        return classify(incoming.head, GIT_PREFIX)
    except Malformed as malformed:
        if malformed.status != 404:
            raise
        return None


def _refuse(session: Session, incoming: Incoming, envelope: Envelope, code: str) -> None:
    lines = refusal_lines(code, envelope.request_id, session.policy, envelope.tier)
    send(incoming, text_reply(code, lines, envelope.request_id))


def _begin(
    desk: Desk, session: Session, incoming: Incoming, request: GitRequest, envelope: Envelope
) -> None:
    server = desk.routes.now.by_upstream.get(request.place.text)
    upstream = server.upstream if server is not None else None
    asked = Asked(request, envelope.tier, session.policy, upstream)
    GitOperation(Case(desk, session, incoming, asked, envelope.request_id), server).run()


def report(desk: Desk, session: Session, incoming: Incoming) -> None:
    """Within the session's quota; beyond it a report is dropped, and the answer says so."""

    def told(data: bytes) -> None:
        stored = session.stored
        event = recorded(parse_report(data), stored.sandbox, stored.id)
        if session.state is not State.ACTIVE or session.reports.take(desk.now()):
            send(incoming, json_reply(429, {"code": "G303", "what": "not recorded"}))
            return
        if event.verdict == "deny":
            _count_reported(desk, session, event)
        try:
            desk.journal.record(event, durable=False)
        except JournalUnavailable as error:
            raise unrecorded(error) from None
        send(incoming, json_reply(200, {}))

    collect(incoming, REPORT_LIMIT, guarded(incoming, told))


def _count_reported(desk: Desk, session: Session, event: Event) -> None:
    told = event.fields()
    count = told.get("count")
    number = count if isinstance(count, int) else 1
    if session.brake.lifted(desk.now(), REPORTS_LATE):
        session.brake.total += number
    else:
        session.brake.refused(desk.now(), number)
    desk.metrics.reported(str(told.get("code", "")), number)
