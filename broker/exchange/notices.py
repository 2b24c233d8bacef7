"""What the client, the audit and the metrics are told of one request.

`exchange` says when, and its kind in which words. A refusal takes effect whether or not it can be
recorded.
"""

from __future__ import annotations

from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.context import Context
from broker.exchange.kind import DROP, Deny, End, Kind
from broker.exchange.recording import record_or_log
from broker.exchange.refusals import Reply
from broker.sessions.sessions import Session
from gitmoat.audit.events import Decision
from gitmoat.audit.journal import JournalUnavailable
from gitmoat.net.http.ends import Incoming
from netpolicy.policy import Policy

log = Logger()

_UNAUTHORISED = 401


@define(eq=False)
class Notices:
    _context: Context
    _session: Session
    _incoming: Incoming
    _labels: tuple[str, str] | None  # of the request, for the metrics
    _began: float
    _braked: float = field(init=False, default=0.0)  # seconds before a refusal is told

    # To the client

    def deny(self, request: Kind, policy: Policy, deny: Deny, recorded: bool) -> None:
        if deny.slows_down:
            self._braked = self._session.brake.refused(self._context.now())
        if not recorded:
            self.record_denied(request, deny)
        self.refuse(request, policy, deny)

    def refuse(self, request: Kind, policy: Policy, deny: Deny) -> None:
        reply = request.refuse(deny, policy, braked=self._braked > 0)
        self.reply(reply, deny.close)

    def reply(self, reply: Reply, close: bool = False) -> None:
        if self._braked > 0:
            delay, self._braked = self._braked, 0.0
            self._context.clock.callLater(delay, self.reply, reply, close)
            return
        self._incoming.discard(DROP)
        # A client that was told its session is over has nothing more to ask here.
        close = close or reply.status == _UNAUTHORISED
        self._incoming.reply(reply.status, reply.headers, reply.body, close=close)

    # To the audit and the metrics

    def count(self, decision: Decision, code: str) -> None:
        if self._labels is not None:
            self._context.metrics.decided(*self._labels, decision, code)

    def record_denied(self, request: Kind, deny: Deny) -> None:
        self.count("deny", deny.code)
        event = request.record_denied(self._session, deny, self._context.now())
        if event is not None and request.synced_beside:
            self._context.recorder.record(event).addErrback(self._not_recorded, request.request_id)
        elif event is not None:
            record_or_log(self._context.journal, event)

    def _not_recorded(self, failure: Failure, request_id: str) -> None:
        failure.trap(JournalUnavailable)
        what = failure.getErrorMessage()
        log.error("refusal {req} not recorded: {what}", req=request_id, what=what)

    def record_end(self, request: Kind, end: End) -> None:
        seconds = self._context.now() - self._began
        if self._labels is not None:
            op, _ = self._labels
            self._context.metrics.ended(op, end.code or "", end.up, end.down, seconds)
        event = request.record_end(self._session, end, seconds)
        if event is not None:
            record_or_log(self._context.journal, event)
