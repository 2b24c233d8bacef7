"""DNS, proxy, synthetic addresses and the rules come from one policy: none knows more than it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.names import dns

from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.proxying import PlainRequest, TunnelRequest
from netpolicy.decision import Deny as PolicyDeny
from netpolicy.egress_rules.egress_decision import decide_egress, decide_plain
from netpolicy.format.writing import policy_digest
from netpolicy.nftables import Uids, render
from netpolicy.policy import Policy, Tier
from netpolicy.upstreams import Upstream, UpstreamTable
from sidecar.egress.dns_answers import DnsAnswers
from sidecar.egress.synthetic import SyntheticAddresses
from sidecar.kind import Allow, Deny, Scope, Source
from sidecar.kinds.egress import HTTP, TUNNEL
from tests.fakes.policies import host_names, patient, policies

PORTS = (22, 80, 443, 8443)
METHODS = ("GET", "HEAD", "POST")


SOURCE = Source("proxy", Tier.UNTRUSTED, 1)


def tunnel(scope: Scope, to: Destination) -> object:
    return TUNNEL.decide(TunnelRequest(to), SOURCE, scope)


def plain(scope: Scope, to: Destination, method: str) -> object:
    return HTTP.decide(PlainRequest(to, method.encode(), b"/", ()), SOURCE, scope)


def knows(scope: Scope, host: HostName) -> bool:
    """Whether DNS has an address for the name."""
    message = dns.Message(id=1, recDes=1)
    message.queries = [dns.Query(host.text, dns.A)]
    answers = DnsAnswers(scope, SyntheticAddresses(0), lambda *told: None)
    answered = dns.Message()
    answered.fromStr(answers.reply(message.toStr()) or b"")
    return bool(answered.answers)


@patient
@given(policies(), host_names, st.booleans())
def test_dns_and_the_ports_know_the_same_hosts(
    policy: Policy, host: HostName, is_git: bool
) -> None:
    upstreams = (Upstream("u", (host.text,), False),) if is_git else ()
    scope = Scope(policy, UpstreamTable(upstreams))
    places = [Destination(host, port) for port in PORTS]
    tunnels = [tunnel(scope, to) for to in places]
    requests = [plain(scope, to, method) for to in places for method in METHODS]
    reached = any(isinstance(decision, Allow) for decision in (*tunnels, *requests))
    assert knows(scope, host) == reached


@patient
@given(policies(), host_names, st.sampled_from(PORTS), st.sampled_from(METHODS))
def test_sidecar_and_broker_ask_the_same_function(
    policy: Policy, host: HostName, port: int, method: str
) -> None:
    """The broker calls these two with its own copy of the policy; a copy decides alike."""
    scope = Scope(policy, UpstreamTable(()))
    to = Destination(host, port)
    verdicts = [decide_egress(policy, to, "tls", frozenset()), decide_plain(policy, to, method, ())]
    for decision, verdict in zip(
        (tunnel(scope, to), plain(scope, to, method)), verdicts, strict=True
    ):
        if isinstance(verdict, PolicyDeny):
            assert decision == Deny(verdict.code, subject=to.text)
        else:
            assert isinstance(decision, Allow)


@patient
@given(policies())
def test_the_rules_in_the_kernel_name_the_policy_they_were_loaded_for(policy: Policy) -> None:
    assert f"policy {policy_digest(policy)}" in render(Uids(1, 2, 3), policy_digest(policy))
