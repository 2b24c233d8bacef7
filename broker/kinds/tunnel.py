"""A tunnel to another host, inside which a client speaks TLS with it.

Its first octets are read here too: a sidecar that was taken over opens nothing that is not TLS for
the name it asked for.
"""

from __future__ import annotations

from typing import ClassVar, Literal, cast

from attrs import frozen

from broker.exchange.decisions import read_request_id
from broker.exchange.kind import Deny, End, Joint
from broker.kinds.other_host import OtherHost, quota, was_cut
from broker.upstream.routes import Routes
from gitmoat.net.causes import Cause, Why
from gitmoat.net.relay import Outcome
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.net.tunnel_relay import Ended, Tunnel
from gitmoat.wire.clienthello import hello_for
from gitmoat.wire.http.formatting import format_response
from gitmoat.wire.http.heads import RequestHead
from gitmoat.wire.http.proxying import TunnelRequest, classify_proxy
from netpolicy.decision import Deny as Denied
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress
from netpolicy.policy import Policy

_ESTABLISHED = format_response(200, (), b"Connection established")


@frozen(eq=False, kw_only=True)
class TlsTunnel(OtherHost):
    name: ClassVar[str] = "tunnel"
    op: ClassVar[Literal["tunnel", "http"]] = "tunnel"
    tunnelled: ClassVar[bool] = True

    @classmethod
    def classify(cls, head: RequestHead, routes: Routes, policy: Policy) -> TlsTunnel | None:
        if head.method != b"CONNECT":
            return None
        request_id, request = read_request_id(head), classify_proxy(head)
        if not isinstance(request, TunnelRequest):
            return None
        return cls(request_id=request_id, head=head, to=request.to)

    def decided(self, policy: Policy, routes: Routes) -> EgressAllow | Denied:
        return decide_egress(policy, self.to, "tls", routes.table.names)

    def join(self, joint: Joint) -> Tunnel:
        return Tunnel(
            joint.clock,
            joint.incoming.tunnel(_ESTABLISHED),
            cast(TunnelEnd, joint.far),
            joint.policy.limits.egress_idle,
            hello_for(self.to.host),
            up=quota(joint),
            down=quota(joint),
        )

    def end(self, outcome: Outcome | Ended) -> End:
        up, down = outcome.bytes_up, getattr(outcome, "bytes_down", 0)
        match outcome:
            case Ended(why=Why(cause=Cause.NOT_OPENED) as why):
                return End("E105", why.text, up, down, denied=Deny("E105", why.text))
            case Ended(why=Why(code=str(code)) as why):
                return End(code, why.text, up, down, denied=was_cut(code))
            case _:
                return End(up=up, down=down)
