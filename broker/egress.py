"""A session's connections to other hosts: decided anew, dialled, joined, counted.

A tunnel's first octets are read here too: a sidecar that was taken over opens nothing that is not
TLS for the name it asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from audit.events import EgressDecision, EgressUsed, Event
from audit.journal import JournalUnavailable
from broker.desk import Desk
from broker.errors import Unavailable
from broker.gate import decide_session, read_request_id
from broker.running import Entry, Kind
from broker.sessions import Session
from gitwire.clienthello import hello_for
from gitwire.errors import Malformed
from gitwire.formatting import format_response
from gitwire.hostname import Destination
from gitwire.http import Headers, ResponseHead
from gitwire.proxying import (
    AnswersDns,
    PlainRequest,
    TunnelRequest,
    classify_proxy,
    format_plain,
    passed_on,
)
from netpolicy.decision import Deny
from netpolicy.egress import EgressAllow, decide_egress, decide_plain
from netpolicy.egresstext import refusal
from netpolicy.policy import Policy, Scheme
from streams.causes import Cause, Why
from streams.client import ClientConnection
from streams.http import Incoming
from streams.raw import Raw
from streams.relay import Broken, Outcome, Refuse, Relay, Relayed, Unanswered
from streams.stages import Quota
from streams.tunnel import Ended, Tunnel

log = Logger()

_ESTABLISHED = format_response(200, (), b"Connection established")
REFUSED = b"Gitmoat-Code"
_PROXY_WANTS_PASSWORD = 407


def serve_egress(desk: Desk, session: Session, incoming: Incoming) -> None:
    """Malformed is answered, with the end of the connection, by whoever called us."""
    request_id = read_request_id(incoming.head)
    request = classify_proxy(incoming.head)
    Connection(desk, session, incoming, request, request_id).run()


@define(eq=False)
class Connection:
    """One request of a session, until what it opened is closed again."""

    _desk: Desk
    _session: Session
    _incoming: Incoming
    _request: TunnelRequest | PlainRequest
    _request_id: str
    _ends: list[Callable[[], None]] = field(factory=list, init=False)
    _running: Tunnel | Relay | None = field(default=None, init=False)
    _dialling: Deferred[None] | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)
    _private: bool = field(default=False, init=False)

    @property
    def _to(self) -> Destination:
        return self._request.to

    @property
    def _scheme(self) -> Scheme:
        return "http" if isinstance(self._request, PlainRequest) else "tls"

    def run(self) -> None:
        """Session, then policy, then budget: nothing is resolved before all of them agree."""
        now, session = self._desk.now(), self._session
        denied = decide_session(session.state, session.overdue(now))
        verdict = denied if denied is not None else self._decide()
        if isinstance(verdict, Deny):
            self._deny(verdict)
        elif not session.egress.enter(now):
            self._deny(Deny("E108", "over the session's budget", verdict.rule))
        else:
            self._dial(verdict, self._enter())

    def _decide(self) -> EgressAllow | Deny:
        verdict = self._allowed(self._session.policy)
        if isinstance(verdict, Deny):
            return verdict
        if isinstance(self._request, PlainRequest) and self._request.asks_for_dns:
            return Deny("E112", "it asks for DNS over HTTPS", verdict.rule)
        if not self._session.egress.left:
            return Deny("E109", "the session has no octets left", verdict.rule)
        return verdict

    @property
    def kind(self) -> Kind:
        return Kind.HTTP if isinstance(self._request, PlainRequest) else Kind.TUNNEL

    def rescope(self, policy: Policy) -> str | None:
        """One that was opened to private addresses stays only where they are allowed."""
        verdict = self._allowed(policy)
        if isinstance(verdict, Deny):
            return verdict.code
        return "E106" if self._private and not verdict.allow_private else None

    def _allowed(self, policy: Policy) -> EgressAllow | Deny:
        git_hosts = self._desk.routes.now.table.names
        match self._request:
            case PlainRequest(to, method):
                return decide_plain(policy, to, method.decode(), git_hosts)
            case TunnelRequest(to):
                return decide_egress(policy, to, "tls", git_hosts)
            case _:
                assert_never(self._request)

    def _enter(self) -> Entry:
        entry = self._session.running.enter(self)
        self._ends = [self._session.egress.leave, entry.leave]
        self._incoming.on_lost(self._client_lost)
        return entry

    def cut(self, code: str) -> None:
        """The session, the policy or its time is over: end what runs, at once."""
        if self._running is not None:
            self._running.cut(Why(Cause.STOPPED, code=code))
        elif not self._over:
            self._give_up()
            self._refuse(code)

    def _client_lost(self) -> None:
        if self._running is None:
            self._give_up()

    def _give_up(self) -> None:
        self._end(0, 0)
        if self._dialling is not None:
            self._dialling.cancel()

    # Dialling

    def _dial(self, allowed: EgressAllow, entry: Entry) -> None:
        if not self._session.egress.is_recorded(self._to) and not self._record_allowed(allowed):
            self._end(0, 0)
            self._refuse("B103")
            return
        self._private = allowed.allow_private
        self._dialling = Deferred.fromCoroutine(self._connect(allowed, entry))
        self._dialling.addErrback(self._failed)

    async def _connect(self, allowed: EgressAllow, entry: Entry) -> None:
        dialler, other_hosts = self._desk.dialler, self._desk.routes.now.other_hosts
        idle, tunnelled = self._session.policy.limits.egress_idle, self.kind is Kind.TUNNEL
        route = other_hosts.route(self._to, allowed.allow_private, idle, tunnelled)
        match self._request:
            case TunnelRequest():
                self._join(await dialler.raw(route, entry))
            case PlainRequest():
                plain = await dialler.http(route, entry)
                self._relay(plain, self._request, absolute=route.proxy is not None)
            case _:
                assert_never(self._request)

    def _failed(self, failure: Failure) -> None:
        if self._over:
            return
        self._end(0, 0)
        error = failure.value
        if not isinstance(error, Unavailable):
            log.failure("dialling for {req} failed", failure, req=self._request_id)
            self._refuse("E107")
            return
        self._record_denied(error.code, error.why)
        self._refuse(error.code)

    # A tunnel

    def _join(self, upstream: Raw) -> None:
        if self._over or not self._incoming.alive:
            upstream.abort()
            self._end(0, 0)
            return
        client = self._incoming.tunnel(_ESTABLISHED)
        tunnel = Tunnel(
            self._desk.clock,
            client,
            upstream,
            self._session.policy.limits.egress_idle,
            hello_for(self._to.host),
            up=self._stages(),
            down=self._stages(),
        )
        self._running = tunnel
        tunnel.start().addCallback(self._ended)

    def _ended(self, ended: Ended) -> None:
        why = ended.why
        if why is not None and why.cause is Cause.NOT_OPENED:
            self._record_denied("E105", why.text)
        elif why is not None and why.code is not None:
            self._record_denied(why.code, "it was cut")
        self._end(ended.bytes_up, ended.bytes_down)

    # A plain request

    def _relay(self, upstream: ClientConnection, request: PlainRequest, absolute: bool) -> None:
        if self._over or not self._incoming.alive:
            upstream.abort()
            self._end(0, 0)
            return
        head = self._incoming.head
        to_head = request.method == b"HEAD"
        try:
            raw = format_plain(request, head, ((b"Connection", b"close"),), absolute)
        except Malformed:
            upstream.abort()
            self._end(0, 0)
            self._refuse("E111")
            return

        def answer(head: ResponseHead) -> tuple[int, Headers] | Refuse:
            if absolute and head.status == _PROXY_WANTS_PASSWORD:
                return Refuse(detail="the proxy wants a password")
            try:
                return head.status, passed_on(head, to_head)
            except AnswersDns as problem:
                return Refuse("E112", problem.what)

        relay = Relay(
            self._incoming,
            upstream,
            raw,
            head.framing,
            answer,
            up=self._stages(),
            down=self._stages(),
            to_head=to_head,
        )
        self._running = relay
        relay.start().addCallback(self._relayed)

    def _relayed(self, outcome: Outcome) -> None:
        match outcome:
            case Broken(_, Why(code=str(code)), up, down):
                self._record_denied(code, "it was cut")
                self._end(up, down)
            case Relayed(_, up, down) | Broken(_, _, up, down):
                self._end(up, down)
            case Unanswered(Why(code=str(code)), None, up):
                self._incoming.abort()
                self._record_denied(code, "it was cut")
                self._end(up, 0)
            case Unanswered(why, refused, up):
                self._end(up, 0)
                log.info("{to}: {why}", to=self._to.text, why=why.text)
                told = refused.code if refused is not None else None
                self._refuse(told or "E107")
            case _:
                assert_never(outcome)

    # Both

    def _stages(self) -> tuple[Quota]:
        """All connections of a session share one budget, and spend it while they move."""
        return (Quota(self._session.egress.bytes, Why(Cause.QUOTA, code="E109")),)

    # The end

    def _end(self, up: int, down: int) -> None:
        if not self._over:
            self._over = True
            if self._running is not None:
                self._session.egress.add(self._to, up, down)
            for end in self._ends:
                end()

    def _deny(self, denied: Deny) -> None:
        self._record_denied(denied.code, denied.reason, denied.rule)
        self._refuse(denied.code)

    def _refuse(self, code: str) -> None:
        if not self._incoming.alive:
            return
        told = refusal(code, self._to.text, self._request_id, self._session.policy)
        headers = ((b"Content-Type", b"text/plain"), (REFUSED, code.encode()))
        self._incoming.reply(told.status, headers, told.body)

    def _record_allowed(self, allowed: EgressAllow) -> bool:
        """Whether it is on record; what cannot be recorded is not done."""
        on_record = self._record(self._decision("allow", allowed.rule), durable=True)
        if on_record:
            self._session.egress.recorded(self._to)
        return on_record

    def _record_denied(self, code: str, reason: str, rule: str = "") -> None:
        """A flood of refusals must not fill the journal."""
        if self._session.denials.own_record(code, self._desk.now()):
            self._record(self._decision("deny", rule, code, reason), durable=False)

    def _decision(
        self, decision: str, rule: str, code: str | None = None, reason: str | None = None
    ) -> EgressDecision:
        stored = self._session.stored
        return EgressDecision(
            sandbox=stored.sandbox,
            session=stored.id,
            decision="allow" if decision == "allow" else "deny",
            op="tunnel" if self._scheme == "tls" else "http",
            to=self._to.text,
            rule=rule or None,
            code=code,
            req=self._request_id,
            reason=reason,
        )

    def _record(self, event: Event, durable: bool) -> bool:
        try:
            self._desk.journal.record(event, durable=durable)
        except JournalUnavailable as error:
            log.error("{req} not recorded: {what}", req=self._request_id, what=error.what)
            return False
        return True


def record_use(desk: Desk, session: Session) -> None:
    """What was moved since the last time, one record for each host."""
    stored = session.stored
    for place, tally in session.egress.take():
        event = EgressUsed(
            sandbox=stored.sandbox,
            session=stored.id,
            to=place,
            count=tally.count,
            bytes_up=tally.bytes_up,
            bytes_down=tally.bytes_down,
        )
        try:
            desk.journal.record(event, durable=False)
        except JournalUnavailable as error:
            log.error("use of {to} not recorded: {what}", to=place, what=error.what)
