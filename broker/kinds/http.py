"""One plain HTTP request to another host, sent in our own spelling."""

from __future__ import annotations

from typing import ClassVar, Literal, assert_never, cast

from attrs import frozen

from broker.exchange.decisions import read_request_id
from broker.exchange.kind import Deny, End, Joint, Verdict
from broker.kinds.other_host import OtherHost, quota, was_cut
from broker.upstream.routes import Routes
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.relay import Broken, Outcome, Refuse, Relay, Relayed, Unanswered
from gitmoat.net.tunnel_relay import Ended
from gitmoat.wire.http.heads import Headers, RequestHead, ResponseHead
from gitmoat.wire.http.proxying import (
    AnswersDns,
    PlainRequest,
    classify_proxy,
    format_plain,
    passed_on,
)
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny as Denied
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_plain
from netpolicy.policy import Policy

_PROXY_WANTS_PASSWORD = 407


@frozen(eq=False, kw_only=True)
class PlainHttp(OtherHost):
    name: ClassVar[str] = "http"
    op: ClassVar[Literal["tunnel", "http"]] = "http"

    request: PlainRequest

    @classmethod
    def classify(cls, head: RequestHead, routes: Routes, policy: Policy) -> PlainHttp | None:
        if head.target.startswith(b"/") or head.method == b"CONNECT":
            return None
        request_id, request = read_request_id(head), classify_proxy(head)
        if not isinstance(request, PlainRequest):
            return None
        return cls(request_id=request_id, head=head, to=request.to, request=request)

    def decide(self, policy: Policy, routes: Routes) -> Verdict:
        verdict = super().decide(policy, routes)
        if self.request.asks_for_dns and not isinstance(verdict, Deny):
            return Deny("E112", "it asks for DNS over HTTPS", self.decided(policy, routes).rule)
        return verdict

    def decided(self, policy: Policy, routes: Routes) -> EgressAllow | Denied:
        return decide_plain(policy, self.to, self.request.method.decode(), routes.table.names)

    def join(self, joint: Joint) -> Relay | Deny:
        proxied = joint.route.proxy is not None
        to_head = self.request.method == b"HEAD"
        try:
            extra = ((b"Connection", b"close"),)
            head = format_plain(self.request, self.head, extra, absolute=proxied)
        except Malformed:
            return Deny("E111")

        def answer(head: ResponseHead) -> tuple[int, Headers] | Refuse:
            joint.answer(head)
            if proxied and head.status == _PROXY_WANTS_PASSWORD:
                return Refuse(detail="the proxy wants a password")
            try:
                return head.status, passed_on(head, to_head)
            except AnswersDns as problem:
                return Refuse("E112", problem.what)

        return Relay(
            joint.incoming,
            cast(ClientConnection, joint.far),
            head,
            self.head.framing,
            answer,
            up=quota(joint),
            down=quota(joint),
            to_head=to_head,
        )

    def end(self, outcome: Outcome | Ended) -> End:
        match outcome:
            case Broken(_, Why(code=str(code)) as why, up, down):
                return End(code, why.text, up, down, denied=was_cut(code))
            case Unanswered(Why(code=str(code)) as why, None, up):
                return End(code, why.text, up, denied=was_cut(code), hangs_up=True)
            case Unanswered(Why(cause=Cause.NO_REQUEST), None, up):
                return End(up=up, hangs_up=True)  # no code of other hosts says so
            case Unanswered(why, refused, up):
                code = (refused.code if refused is not None else None) or "E107"
                return End(code, why.text, up, tell=Deny(code))
            case Relayed(_, up, down) | Broken(_, _, up, down) | Ended(up, down):
                return End(up=up, down=down)
            case _:
                assert_never(outcome)
