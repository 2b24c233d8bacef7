"""What goes to other hosts: tunnels and plain HTTP have their decision and accounts in common."""

from __future__ import annotations

from typing import ClassVar, Literal

from attrs import frozen

from broker.errors import Unavailable
from broker.exchange.kind import Allow, Deny, End, Joint, Kind, State, Verdict
from broker.exchange.refusals import Reply
from broker.sessions.admission import Admission
from broker.sessions.sessions import Session
from broker.upstream.route import Route
from broker.upstream.routes import Routes
from gitmoat.audit.events import EgressDecision
from gitmoat.net.causes import Cause, Why
from gitmoat.net.stages import Quota, Stages
from gitmoat.wire.hostname import Destination
from netpolicy.decision import Deny as Denied
from netpolicy.egress_rules.egress_decision import EgressAllow
from netpolicy.egress_rules.refusal import refusal
from netpolicy.policy import Policy

REFUSED = b"Gitmoat-Code"


@frozen(eq=False, kw_only=True)
class OtherHost(Kind):
    """Its budget counts what is allowed: nothing is resolved before policy and budget agree."""

    to: Destination

    encloses: ClassVar[State] = State.JOINED
    op: ClassVar[Literal["tunnel", "http"]]

    def decide(self, policy: Policy, routes: Routes) -> Verdict:
        verdict = self.decided(policy, routes)
        if isinstance(verdict, Denied):
            return Deny(verdict.code, verdict.reason, verdict.rule)
        return Allow(verdict.rule, verdict.allow_private)

    def decided(self, policy: Policy, routes: Routes) -> EgressAllow | Denied:
        raise NotImplementedError

    def rescope(self, before: Policy, after: Policy, allowed: Allow | None, routes: Routes) -> str:
        """One that was opened to private addresses stays only where they are allowed."""
        verdict = self.decided(after, routes)
        if isinstance(verdict, Denied):
            return verdict.code
        narrower = allowed is not None and allowed.private and not verdict.allow_private
        return "E106" if narrower else ""

    def enter(self, session: Session, admission: Admission, now: float, rule: str) -> Deny | float:
        if not session.egress.left:
            return Deny("E109", "the session has no octets left", rule)
        if not session.egress.enter(now):
            return Deny("E108", "over the session's budget", rule)
        return 0.0

    def leave(self, session: Session) -> None:
        session.egress.leave()

    # What is told and recorded

    def refuse(self, deny: Deny, policy: Policy, braked: bool) -> Reply:
        told = refusal(deny.code, self.to.text, self.request_id, policy)
        headers = ((b"Content-Type", b"text/plain"), (REFUSED, deny.code.encode()))
        return Reply(told.status, headers, told.body)

    def record_allowed(self, session: Session, allow: Allow, now: float) -> EgressDecision | None:
        if session.egress.is_recorded(self.to):
            return None
        return self._decision(session, "allow", allow.rule)

    def recorded(self, session: Session) -> None:
        session.egress.recorded(self.to)

    def record_denied(self, session: Session, deny: Deny, now: float) -> EgressDecision | None:
        if not session.denials.own_record(deny.code, now):
            return None
        return self._decision(session, "deny", deny.rule, deny.code, deny.reason)

    def record_end(self, session: Session, end: End, seconds: float) -> None:
        """What was moved to a host is recorded together, every minute."""
        session.egress.add(self.to, end.up, end.down)

    def _decision(
        self,
        session: Session,
        decision: Literal["allow", "deny"],
        rule: str,
        code: str | None = None,
        reason: str | None = None,
    ) -> EgressDecision:
        return EgressDecision(
            sandbox=session.stored.sandbox,
            session=session.stored.id,
            decision=decision,
            op=self.op,
            to=self.to.text,
            rule=rule or None,
            code=code,
            req=self.request_id,
            reason=reason,
        )

    # The far end

    def route(self, routes: Routes, policy: Policy, allow: Allow) -> Route:
        idle = policy.limits.egress_idle
        return routes.other_hosts.route(self.to, allow.private, idle, self.tunnelled)

    def unavailable(self, error: Unavailable) -> End:
        return End(error.code, error.why, tell=Deny(error.code), denied=Deny(error.code, error.why))


def quota(joint: Joint) -> Stages:
    """All connections of a session share one budget, and spend it while they move."""
    return (Quota(joint.session.egress.bytes, Why(Cause.QUOTA, code="E109")),)


def was_cut(code: str) -> Deny:
    return Deny(code, "it was cut")
