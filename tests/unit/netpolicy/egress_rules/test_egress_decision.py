"""Which hosts a sandbox may reach, by which port and protocol."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.hostname import Destination, HostName
from netpolicy.decision import Deny
from netpolicy.egress_rules.egress_decision import (
    EgressAllow,
    decide_egress,
    opens_anything,
    ways_to,
)
from netpolicy.format.document import parse_policy
from netpolicy.policy import Policy, Scheme
from tests.fakes.policies import host_names, patient, policies, ports

SCHEMES: tuple[Scheme, ...] = ("tls", "http")
schemes = st.sampled_from(SCHEMES)
HEAD = 'version = 1\nname = "t"\n'
RULES = """
[[egress]]
id = "mirror"
hosts = ["mirror.example", "*.cdn.example"]
[[egress]]
id = "apt"
hosts = ["deb.example"]
scheme = "http"
[[egress]]
id = "inside"
hosts = ["db.corp.example"]
ports = [443, 8443]
allow_private = true
[[egress]]
id = "no-logs"
effect = "deny"
hosts = ["logs.cdn.example"]
"""


def decide(
    where: str, scheme: Scheme = "tls", git: frozenset[str] = frozenset(), rules: str = RULES
) -> EgressAllow | Deny:
    host, _, port = where.partition(":")
    to = Destination(HostName(host), int(port or 443))
    return decide_egress(parse_policy(HEAD + rules), to, scheme, git)


def code(verdict: EgressAllow | Deny) -> str:
    return verdict.code if isinstance(verdict, Deny) else f"by {verdict.rule}"


def test_a_host_is_reached_by_the_rule_that_names_it_and_no_other_way() -> None:
    assert code(decide("mirror.example")) == "by mirror"
    assert code(decide("a.cdn.example")) == "by mirror"
    assert code(decide("cdn.example")) == "E101"
    assert code(decide("a.b.cdn.example")) == "E101"
    assert code(decide("mirror.example.evil.example")) == "E101"
    assert code(decide("mirror.example:22")) == "E102"
    assert code(decide("db.corp.example:8443")) == "by inside"


def test_plain_http_needs_a_rule_that_says_so_and_tls_one_that_does_not() -> None:
    assert code(decide("deb.example:80", "http")) == "by apt"
    assert code(decide("deb.example", "tls")) == "E110"
    assert code(decide("mirror.example:80", "http")) == "E110"


def test_reading_methods_are_what_an_http_rule_means_unless_it_says_more() -> None:
    allowed = decide("deb.example:80", "http")
    assert isinstance(allowed, EgressAllow)
    assert allowed.methods == {"GET", "HEAD"}


def test_private_addresses_are_for_the_rule_that_says_so() -> None:
    inside, outside = decide("db.corp.example"), decide("mirror.example")
    assert isinstance(inside, EgressAllow)
    assert inside.allow_private
    assert isinstance(outside, EgressAllow)
    assert not outside.allow_private


def test_a_deny_rule_without_ports_is_about_every_port_and_scheme() -> None:
    wide = RULES + '[[egress]]\nhosts = ["logs.cdn.example"]\nports = [443, 80]\n'
    wide += '[[egress]]\nhosts = ["logs.cdn.example"]\nscheme = "http"\n'
    assert code(decide("logs.cdn.example", rules=wide)) == "E101"
    assert code(decide("logs.cdn.example:80", "http", rules=wide)) == "E101"


def test_a_deny_rule_with_ports_leaves_the_others() -> None:
    rules = '[[egress]]\nhosts = ["a.example"]\nports = [443, 8443]\n'
    rules += '[[egress]]\neffect = "deny"\nhosts = ["a.example"]\nports = [8443]\n'
    assert code(decide("a.example:443", rules=rules)) == "by egress-1"
    assert code(decide("a.example:8443", rules=rules)) == "E101"


def test_a_git_server_is_reached_only_when_it_is_written_out() -> None:
    git = frozenset({"git.cdn.example"})
    assert code(decide("git.cdn.example", git=git)) == "E104"
    assert code(decide("www.cdn.example", git=git)) == "by mirror"
    listed = RULES + '[[egress]]\nid = "forge"\nhosts = ["git.cdn.example"]\n'
    assert code(decide("git.cdn.example", git=git, rules=listed)) == "by forge"


def test_a_policy_without_rules_opens_nothing() -> None:
    policy = parse_policy(HEAD)
    assert not opens_anything(policy)
    assert opens_anything(parse_policy(HEAD + RULES))
    assert not opens_anything(
        parse_policy(HEAD + '[[egress]]\neffect = "deny"\nhosts = ["a.example"]')
    )


@patient
@given(policies(), host_names, ports, schemes)
def test_nothing_is_reached_that_no_rule_writes_down(
    policy: Policy, host: HostName, port: int, scheme: Scheme
) -> None:
    verdict = decide_egress(policy, Destination(host, port), scheme, ())
    naming = [rule for rule in policy.egress if rule.applies(host)]
    allowed = any(
        rule.effect == "allow" and rule.scheme == scheme and port in rule.ports for rule in naming
    )
    denied = any(
        rule.effect == "deny" and (not rule.ports or port in rule.ports) for rule in naming
    )
    assert isinstance(verdict, EgressAllow) == (allowed and not denied)


@patient
@given(policies(), host_names, ports, schemes)
def test_the_order_of_rules_never_matters(
    policy: Policy, host: HostName, port: int, scheme: Scheme
) -> None:
    to = Destination(host, port)
    turned = evolve(policy, egress=policy.egress[::-1])
    here, there = decide_egress(policy, to, scheme, ()), decide_egress(turned, to, scheme, ())
    assert isinstance(here, Deny) == isinstance(there, Deny)


@patient
@given(policies(), host_names, st.booleans())
def test_a_name_is_known_exactly_when_some_connection_to_it_is_allowed(
    policy: Policy, host: HostName, is_git: bool
) -> None:
    git = {host.text} if is_git else set[str]()
    tried = {
        (port, scheme)
        for port in (22, 80, 443, 8443)
        for scheme in SCHEMES
        if isinstance(decide_egress(policy, Destination(host, port), scheme, git), EgressAllow)
    }
    assert set(ways_to(policy, host, git)) == tried
