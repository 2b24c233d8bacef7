"""The one place where a sandbox's connections to other hosts are allowed or denied.

Sidecar and broker ask the same function; DNS answers for a name when some connection to it would
be allowed. Presets are expanded to rules before a policy gets here.
"""

from collections.abc import Collection, Sequence

from attrs import frozen

from gitmoat.wire.hostname import Destination, HostName
from netpolicy.decision import Allow, Deny
from netpolicy.policy import EgressRule, Policy, Scheme


@frozen
class EgressAllow(Allow):
    """The union of what the rules that allow it give; `methods` is empty except for plain HTTP."""

    allow_private: bool
    methods: frozenset[str]


def decide_egress(
    policy: Policy, to: Destination, scheme: Scheme, git_hosts: Collection[str]
) -> EgressAllow | Deny:
    """`git_hosts` are the names of git servers, which no wildcard matches."""
    for rule in policy.egress:
        if rule.effect != "allow" and rule.applies(to.host) and rule.covers(to.port):
            return Deny("E101", "a rule denies it", rule.id)
    naming = rules_naming(policy, to.host, git_hosts)
    if not naming:
        return _unnamed(to.host, git_hosts)
    of_scheme = [rule for rule in naming if rule.scheme == scheme]
    if not of_scheme:
        return Deny("E110", "no rule allows this scheme", naming[0].id)
    allowing = [rule for rule in of_scheme if rule.covers(to.port)]
    if not allowing:
        return Deny("E102", "no rule allows this port", of_scheme[0].id)
    return _combined(allowing)


def decide_plain(
    policy: Policy, to: Destination, method: str, git_hosts: Collection[str]
) -> EgressAllow | Deny:
    """A request in plain HTTP."""
    verdict = decide_egress(policy, to, "http", git_hosts)
    if isinstance(verdict, EgressAllow) and method not in verdict.methods:
        return Deny("E110", "no rule allows this method", verdict.rule)
    return verdict


def ways_to(
    policy: Policy, host: HostName, git_hosts: Collection[str]
) -> tuple[tuple[int, Scheme], ...]:
    """Every port and scheme by which the host may be reached; DNS knows it if there is one."""
    naming = rules_naming(policy, host, git_hosts)
    ways = dict.fromkeys((port, rule.scheme) for rule in naming for port in rule.ports)
    return tuple(
        (port, scheme)
        for port, scheme in ways
        if isinstance(
            decide_egress(policy, Destination(host, port), scheme, git_hosts), EgressAllow
        )
    )


def opens_anything(policy: Policy) -> bool:
    """Whether the sandbox needs DNS and proxy at all."""
    return any(rule.effect == "allow" for rule in policy.egress)


def rules_naming(policy: Policy, host: HostName, git_hosts: Collection[str]) -> list[EgressRule]:
    """The rules that allow some connection to this host."""
    allowing = [rule for rule in policy.egress if rule.effect == "allow"]
    if host.text in git_hosts:
        return [rule for rule in allowing if rule.names(host)]
    return [rule for rule in allowing if rule.applies(host)]


def _unnamed(host: HostName, git_hosts: Collection[str]) -> Deny:
    if host.text in git_hosts:
        return Deny("E104", "it is a git server that no rule names")
    return Deny("E101", "no rule names it")


def _combined(rules: Sequence[EgressRule]) -> EgressAllow:
    return EgressAllow(
        rule=",".join(dict.fromkeys(rule.id for rule in rules)),
        allow_private=any(rule.allow_private for rule in rules),
        methods=frozenset(method for rule in rules for method in rule.methods),
    )
