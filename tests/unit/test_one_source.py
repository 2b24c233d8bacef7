"""DNS, proxy, synthetic addresses, nftables, `policy explain` and what people are shown come from
one Policy: nothing has a list of its own that could say something else."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given

from gitmoat.wire.dns import A
from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.proxying import PlainRequest, TunnelRequest
from netpolicy.egress_rules.asking import nearest
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress
from netpolicy.egress_rules.refusal import refusal
from netpolicy.format.document import policy_digest, policy_from_mapping, policy_to_mapping
from netpolicy.nftables import Uids, render
from netpolicy.policy import EgressTest, Policy, Scheme, Tier
from netpolicy.rule_kind import GitServers
from netpolicy.upstreams import Upstream, UpstreamTable
from sidecar.egress.dns_answers import DnsAnswers
from sidecar.egress.synthetic import SyntheticAddresses
from sidecar.kind import Allow, Scope, Source
from sidecar.kinds.egress import HTTP, TUNNEL
from tests.fakes.policies import destinations, host_names, patient, policies, schemes
from tests.stage.sources import ROOT, files

GIT = UpstreamTable((Upstream("forge", ("a.example",), False),))
SCHEMES: tuple[Scheme, ...] = ("tls", "http")
NOERROR, NXDOMAIN = 0, 3


def allowed(policy: Policy, to: Destination, scheme: Scheme) -> bool:
    return isinstance(decide_egress(policy, to, scheme, GIT.names), EgressAllow)


def question(name: HostName) -> bytes:
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.text.split("."))
    head = b"\x00\x01" + b"\x01\x00" + b"\x00\x01" + bytes(6)
    return head + labels + b"\x00" + A.to_bytes(2) + b"\x00\x01"


@patient
@given(policies(), host_names)
def test_dns_knows_a_name_exactly_if_some_connection_to_it_is_allowed(
    policy: Policy, name: HostName
) -> None:
    answers = DnsAnswers(Scope(policy, GIT), SyntheticAddresses(0), lambda *told: None)
    reply = answers.reply(question(name))
    assert reply is not None
    ports = {port for rule in policy.egress for port in rule.ports}
    reachable = any(
        allowed(policy, Destination(name, port), scheme) for port in ports for scheme in SCHEMES
    )
    assert reply[3] & 15 == (NOERROR if reachable else NXDOMAIN)


@patient
@given(policies(), destinations)
def test_the_sidecars_ports_say_what_the_policy_says(policy: Policy, to: Destination) -> None:
    scope, source = Scope(policy, GIT), Source("proxy", Tier.UNTRUSTED, 1)
    tunnel = TUNNEL.decide(TunnelRequest(to), source, scope)
    verdict = decide_egress(policy, to, "tls", GIT.names)
    assert isinstance(tunnel, Allow) == isinstance(verdict, EgressAllow)
    plain = HTTP.decide(PlainRequest(to, b"GET", b"/", ()), source, scope)
    assert not isinstance(plain, Allow) or allowed(policy, to, "http")


@patient
@given(policies(), destinations, schemes)
def test_what_a_refused_client_is_shown_and_the_nearest_change_agree_with_the_decision(
    policy: Policy, to: Destination, scheme: Scheme
) -> None:
    verdict = decide_egress(policy, to, scheme, GIT.names)
    lacks = nearest(policy, EgressTest("allow", to, scheme), GitServers(GIT.folds, GIT.names))
    assert bool(lacks) != allowed(policy, to, scheme)
    if not isinstance(verdict, EgressAllow):
        body = refusal(verdict.code, to.text, "id", policy).body.decode()
        (line,) = (line for line in body.splitlines() if line.startswith("allowed: "))
        rules = [rule for rule in policy.egress if rule.effect == "allow"]
        hosts = {host.text for rule in rules for host in rule.hosts}
        shown = {place.partition(":")[0] for place in line[9:].split(", ") if ":" in place}
        assert shown <= hosts and bool(shown) == bool(hosts)


@patient
@given(policies(), policies())
def test_the_rules_carry_the_checksum_of_the_policy_they_were_made_for(
    policy: Policy, other: Policy
) -> None:
    uids = Uids(1, 2, 3)
    digest = policy_digest(policy)
    assert digest in render(uids, digest)
    same = policy_from_mapping(json.loads(json.dumps(policy_to_mapping(policy))))
    assert policy_digest(same) == digest
    assert (policy_digest(other) == digest) == (other == policy)


def _reads_rules(tree: ast.Module) -> bool:
    """Looks into a policy's rules about hosts, or names their class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "egress":
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.lstrip("_") == "policy":
                return True
        if isinstance(node, ast.ImportFrom) and any(a.name == "EgressRule" for a in node.names):
            return True
    return False


@pytest.mark.parametrize(
    "planted",
    [
        "for rule in self.policy.egress: print(rule)",
        "found = policy.egress[0]",
        "from netpolicy.policy import EgressRule",
    ],
)
def test_who_looks_into_the_rules_is_seen(planted: str) -> None:
    assert _reads_rules(ast.parse(planted))


@pytest.mark.parametrize("package", ["broker", "hostd", "sidecar", "gitmoat/net"])
def test_no_daemon_looks_into_the_rules_itself(package: str) -> None:
    for path in files(ROOT / package):
        assert not _reads_rules(ast.parse(path.read_text(encoding="utf-8"))), path
