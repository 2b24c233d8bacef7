"""The smallest change to a policy that would let a sandbox reach a host, in words and done."""

from collections.abc import Collection, Sequence

from attrs import evolve

from gitwire.hostname import Destination
from netpolicy.egress import EgressAllow, decide_egress
from netpolicy.matchers import HostPattern
from netpolicy.nearest import Nearest
from netpolicy.policy import EgressRule, Policy, Scheme

_USUAL = {"tls": 443, "http": 80}
_READING = ("GET", "HEAD")


def nearest_host_change(
    policy: Policy, to: Destination, scheme: Scheme, git_hosts: Collection[str]
) -> Nearest | None:
    """None when nothing needs to change. BadPattern for a host that no rule can name."""
    if isinstance(decide_egress(policy, to, scheme, git_hosts), EgressAllow):
        return None
    denying = [rule for rule in policy.egress if _denies(rule, to)]
    words = [
        f"rule {rule.id} denies it, and deny beats allow: change that rule" for rule in denying
    ]
    rules = [rule for rule in policy.egress if rule not in denying]
    left = evolve(policy, egress=tuple(rules))
    if isinstance(decide_egress(left, to, scheme, git_hosts), EgressAllow):
        return Nearest(tuple(words), left)
    more, changed = _allowing(rules, to, scheme, git_hosts)
    return Nearest((*words, more), evolve(policy, egress=tuple(changed)))


def _denies(rule: EgressRule, to: Destination) -> bool:
    return rule.effect == "deny" and rule.applies(to.host) and rule.covers(to.port)


def _allowing(
    rules: Sequence[EgressRule], to: Destination, scheme: Scheme, git_hosts: Collection[str]
) -> tuple[str, list[EgressRule]]:
    """One more port of a rule that names this host alone, or else a rule of its own."""
    for rule in rules:
        alone = rule.effect == "allow" and [each.text for each in rule.hosts] == [to.host.text]
        if alone and rule.scheme == scheme:
            wider = evolve(rule, ports=(*rule.ports, to.port))
            words = f"in rule {rule.id}: add {to.port} to ports"
            return words, [wider if each is rule else each for each in rules]
    own = _own_rule(rules, to, scheme)
    note = "; git itself needs no such rule" if to.host.text in git_hosts else ""
    return f"add a rule: {_written(own)}{note}", [*rules, own]


def _own_rule(rules: Sequence[EgressRule], to: Destination, scheme: Scheme) -> EgressRule:
    taken = {rule.id for rule in rules}
    number = next(n for n in range(1, len(taken) + 2) if f"new-{n}" not in taken)
    return EgressRule(
        id=f"new-{number}",
        effect="allow",
        hosts=(HostPattern(to.host.text),),
        ports=(to.port,),
        scheme=scheme,
        methods=_READING if scheme == "http" else (),
    )


def _written(rule: EgressRule) -> str:
    parts = [f'hosts = ["{rule.hosts[0].text}"]']
    parts += [f"ports = [{rule.ports[0]}]"] if rule.ports[0] != _USUAL[rule.scheme] else []
    parts += ['scheme = "http"'] if rule.scheme == "http" else []
    return f"[[egress]] {', '.join(parts)}"
