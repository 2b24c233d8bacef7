"""The nearest change for a host says what to do, and doing it is enough."""

import pytest
from hypothesis import given

from gitmoat.wire.hostname import Destination, parse_destination
from netpolicy.egress_rules.asking import decide, nearest
from netpolicy.egress_rules.egress_decision import EgressAllow
from netpolicy.format.document import parse_policy
from netpolicy.policy import EgressTest, Policy, Scheme
from netpolicy.rule_kind import GitServers
from tests.fakes.policies import destinations, edited, patient, policies, schemes

POLICY = parse_policy("""
version = 1
name = "agents"
[[egress]]
id = "mirror"
hosts = ["mirror.example"]
[[egress]]
id = "cdn"
hosts = ["*.cdn.example", "other.example"]
[[egress]]
id = "no-uploads"
effect = "deny"
hosts = ["up.cdn.example"]
""")


@pytest.mark.parametrize(
    ("to", "scheme", "words"),
    [
        ("mirror.example:8443", "tls", ("in rule mirror: add 8443 to ports",)),
        (
            "a.cdn.example:22",
            "tls",
            ('add a rule: [[egress]] hosts = ["a.cdn.example"], ports = [22]',),
        ),
        ("new.example:443", "tls", ('add a rule: [[egress]] hosts = ["new.example"]',)),
        (
            "mirror.example:80",
            "http",
            ('add a rule: [[egress]] hosts = ["mirror.example"], scheme = "http"',),
        ),
        (
            "up.cdn.example:443",
            "tls",
            ("rule no-uploads denies it, and deny beats allow: change that rule",),
        ),
        (
            "git.example:443",
            "tls",
            ('add a rule: [[egress]] hosts = ["git.example"]; git itself needs no such rule',),
        ),
    ],
)
def test_it_names_the_rule_and_the_key(to: str, scheme: Scheme, words: tuple[str, ...]) -> None:
    wish = EgressTest("allow", parse_destination(to.encode()), scheme)
    found = nearest(POLICY, wish, GitServers(bool, {"git.example"}))
    assert tuple(each.words for each in found) == words


@patient
@given(policies(), destinations, schemes)
def test_the_change_can_be_written_down_and_makes_it_allowed(
    policy: Policy, to: Destination, scheme: Scheme
) -> None:
    wish = EgressTest("allow", to, scheme)
    for servers in (GitServers(bool, ()), GitServers(bool, (to.host.text,))):
        after = edited(policy, nearest(policy, wish, servers))
        assert isinstance(decide(after, wish, servers), EgressAllow)
