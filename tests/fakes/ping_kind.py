"""A kind of request that the broker does not know: it asks a host whether it is there."""

from __future__ import annotations

from typing import ClassVar, cast

from attrs import frozen

from broker.exchange.decisions import read_request_id
from broker.exchange.kind import Allow, Deny, End, Joint, Kind, Verdict
from broker.exchange.refusals import Reply, json_reply
from broker.sessions.admission import Admission
from broker.sessions.sessions import Session
from broker.upstream.route import Route
from broker.upstream.routes import Routes
from gitmoat.audit.events import Decision, GitDecision, GitOutcome
from gitmoat.net.causes import Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.relay import Broken, Outcome, Refuse, Relay, Unanswered
from gitmoat.net.tunnel_relay import Ended
from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.framing import Headers
from gitmoat.wire.http.heads import NoBody, RequestHead, ResponseHead, format_request
from netpolicy.decision import Deny as Denied
from netpolicy.egress_rules.egress_decision import decide_egress
from netpolicy.policy import Policy

PREFIX = b"/ping/"


@frozen(eq=False, kw_only=True)
class Ping(Kind):
    name: ClassVar[str] = "ping"
    queued: ClassVar[bool] = True
    synced_beside: ClassVar[bool] = True

    to: Destination

    @classmethod
    def classify(cls, head: RequestHead, routes: Routes, policy: Policy) -> Ping | None:
        if not head.target.startswith(PREFIX):
            return None
        host = HostName(head.target.removeprefix(PREFIX).decode())
        return cls(request_id=read_request_id(head), head=head, to=Destination(host, 80))

    def decide(self, policy: Policy, routes: Routes) -> Verdict:
        verdict = decide_egress(policy, self.to, "http", routes.table.names)
        if isinstance(verdict, Denied):
            return Deny(verdict.code, verdict.reason, verdict.rule)
        return Allow(verdict.rule, verdict.allow_private)

    def enter(self, session: Session, admission: Admission, now: float, rule: str) -> Deny | float:
        return 0.0 if session.egress.enter(now) else Deny("E108", "over its budget", rule)

    def leave(self, session: Session) -> None:
        session.egress.leave()

    def refuse(self, deny: Deny, policy: Policy, braked: bool) -> Reply:
        return json_reply(403, {"code": deny.code, "what": "no ping"})

    def record_allowed(self, session: Session, allow: Allow, now: float) -> GitDecision:
        return self._decision(session, "allow", allow.rule)

    def record_denied(self, session: Session, deny: Deny, now: float) -> GitDecision:
        return self._decision(session, "deny", deny.rule, deny.code)

    def _decision(
        self, session: Session, decision: Decision, rule: str, code: str | None = None
    ) -> GitDecision:
        return GitDecision(
            sandbox=session.stored.sandbox,
            session=session.stored.id,
            decision=decision,
            op="ping",
            tier="untrusted",
            repo=self.to.text,
            rule=rule or None,
            code=code,
            req=self.request_id,
        )

    def record_end(self, session: Session, end: End, seconds: float) -> GitOutcome:
        return GitOutcome(
            sandbox=session.stored.sandbox,
            session=session.stored.id,
            op="ping",
            repo=self.to.text,
            bytes_up=end.up,
            bytes_down=end.down,
            ms=int(seconds * 1000),
            code=end.code,
            req=self.request_id,
        )

    def route(self, routes: Routes, policy: Policy, allow: Allow) -> Route:
        return routes.other_hosts.route(self.to, allow.private, 5.0, tunnelled=False)

    def join(self, joint: Joint) -> Relay:
        head = format_request(b"GET", b"/ping", [(b"Host", self.to.host.text.encode())])

        def answer(head: ResponseHead) -> tuple[int, Headers] | Refuse:
            joint.answer(head)
            return head.status, ()

        far = cast(ClientConnection, joint.far)
        return Relay(joint.incoming, far, head, NoBody(), answer)

    def end(self, outcome: Outcome | Ended) -> End:
        match outcome:
            case Unanswered():
                return End("E107", tell=Deny("E107"))
            case Broken(_, Why(code=str(code)), up, down):
                return End(code, "", up, down)
            case _:
                return End(up=outcome.bytes_up, down=outcome.bytes_down)
