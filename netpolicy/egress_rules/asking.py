"""What the rules about hosts say to a question, and what they lack to allow it."""

from collections.abc import Collection, Sequence
from typing import Final

from gitmoat.wire.hostname import Destination, parse_destination
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress, rules_naming
from netpolicy.egress_rules.tables import TESTS
from netpolicy.patterns.matchers import BadPattern
from netpolicy.policy import DEFAULT_PORTS, EgressRule, EgressTest, Policy, Scheme
from netpolicy.rule_kind import GitServers, Missing, Question

OPERATIONS: Final = tuple(TESTS)


def as_test(question: Question) -> EgressTest:
    """The question as a test; BadPattern for what is no host."""
    if question.ref is not None:
        raise BadPattern("a host is named alone", "write HOST or HOST:PORT")
    scheme = TESTS[question.operation]
    named = ":" in question.subject
    text = question.subject if named else f"{question.subject}:{DEFAULT_PORTS[scheme]}"
    try:
        return EgressTest("allow", parse_destination(text.encode()), scheme)
    except Malformed as error:
        hint = "write HOST or HOST:PORT; an address is never reached"
        raise BadPattern(error.what, hint) from None


def decide(policy: Policy, test: EgressTest, servers: GitServers) -> EgressAllow | Deny:
    return decide_egress(policy, test.to, test.scheme, servers.hosts)


def nearest(policy: Policy, wanted: EgressTest, servers: GitServers) -> tuple[Missing, ...]:
    """Nothing when it is allowed. BadPattern for a host that no rule can name."""
    if isinstance(decide(policy, wanted, servers), EgressAllow):
        return ()
    to, scheme, git_hosts = wanted.to, wanted.scheme, servers.hosts
    denying = [
        Missing("egress", rule.id, "")
        for rule in policy.egress
        if rule.effect == "deny" and rule.applies(to.host) and rule.covers(to.port)
    ]
    rules = rules_naming(policy, to.host, git_hosts)
    if any(rule.scheme == scheme and rule.covers(to.port) for rule in rules):
        return tuple(denying)
    return (*denying, _allowing(rules, to, scheme, git_hosts))


def _allowing(
    rules: Sequence[EgressRule], to: Destination, scheme: Scheme, git_hosts: Collection[str]
) -> Missing:
    """One more port of a rule that names this host alone, or else a rule of its own."""
    for rule in rules:
        if rule.scheme == scheme and [each.text for each in rule.hosts] == [to.host.text]:
            return Missing("egress", rule.id, "ports", to.port)
    EgressRule.of_place("", to, scheme)
    own: dict[str, object] = {"hosts": [to.host.text]}
    if to.port != DEFAULT_PORTS[scheme]:
        own["ports"] = [to.port]
    if scheme == "http":
        own["scheme"] = "http"
    note = "; git itself needs no such rule" if to.host.text in git_hosts else ""
    return Missing("egress", "", "", own, note)
