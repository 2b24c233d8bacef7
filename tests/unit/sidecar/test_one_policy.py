"""DNS, proxy, synthetic addresses and the rules come from one policy: none knows more than it."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from twisted.names import dns

from gitwire.hostname import Destination, HostName
from netpolicy.egress import EgressAllow, decide_egress, decide_plain
from netpolicy.nftables import Uids, render
from netpolicy.policy import Policy
from netpolicy.upstreams import Upstream, UpstreamTable
from netpolicy.writing import policy_digest
from sidecar.dns_answers import DnsAnswers
from sidecar.egress_office import EgressOffice
from sidecar.forwarding import Scope
from sidecar.synthetic import SyntheticAddresses
from tests.fakes.policies import host_names, patient, policies

PORTS = (22, 80, 443, 8443)
METHODS = ("GET", "HEAD", "POST")


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
    office = EgressOffice(cast(Any, None), scope, 1, *[cast(Any, None)] * 4)
    tunnels = [office.decide_tunnel(Destination(host, port)) for port in PORTS]
    plain = [
        office.decide_plain(Destination(host, port), method.encode())
        for port in PORTS
        for method in METHODS
    ]
    reached = any(isinstance(verdict, EgressAllow) for verdict in (*tunnels, *plain))
    assert knows(scope, host) == reached


@patient
@given(policies(), host_names, st.sampled_from(PORTS), st.sampled_from(METHODS))
def test_sidecar_and_broker_ask_the_same_function(
    policy: Policy, host: HostName, port: int, method: str
) -> None:
    """The broker calls these two with its own copy of the policy; a copy decides alike."""
    scope = Scope(policy, UpstreamTable(()))
    office = EgressOffice(cast(Any, None), scope, 1, *[cast(Any, None)] * 4)
    to = Destination(host, port)
    assert office.decide_tunnel(to) == decide_egress(policy, to, "tls", frozenset())
    assert office.decide_plain(to, method.encode()) == decide_plain(policy, to, method, ())


@patient
@given(policies())
def test_the_rules_in_the_kernel_name_the_policy_they_were_loaded_for(policy: Policy) -> None:
    assert f"policy {policy_digest(policy)}" in render(Uids(1, 2, 3), policy_digest(policy))
