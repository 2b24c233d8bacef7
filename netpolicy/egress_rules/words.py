"""A rule about hosts, a change of one, and a test of one, in words."""

from collections.abc import Iterator

from netpolicy.egress_rules.tables import keys_of
from netpolicy.format.key_rows import KeyChange, compare_keys
from netpolicy.policy import EgressRule, EgressTest, Scheme


def rule_words(rule: EgressRule) -> str:
    ports = f"port {', '.join(map(str, rule.ports))}" if rule.ports else "every port"
    hosts = ", ".join(host.text for host in rule.hosts)
    return f"{hosts}: {ports}" + (f" by {rule.scheme}" if rule.effect == "allow" else "")


def changes(old: EgressRule, new: EgressRule) -> Iterator[KeyChange]:
    """As for a rule that allows; by every key that has a meaning in one of the two."""
    scheme: Scheme = "http" if "http" in (old.scheme, new.scheme) else "tls"
    return compare_keys(keys_of(new.effect, scheme), old, new)


def test_words(test: EgressTest) -> str:
    return f"{test.to.text} by {test.scheme}"
