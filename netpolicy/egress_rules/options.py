"""What `run --allow-host HOST[:PORT]` means, a rule of its own or less of a named policy; and what
a ceiling does not cover."""

from collections.abc import Sequence

from attrs import evolve

from gitmoat.wire.hostname import Destination, parse_destination
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny
from netpolicy.egress_rules.egress_decision import decide_egress
from netpolicy.format.reading import PolicyError, parse_at
from netpolicy.patterns.matchers import BadPattern, HostPattern
from netpolicy.policy import DEFAULT_PORTS, EgressBound, EgressRule, Policy
from netpolicy.rule_kind import Options

_OPTION = "--allow-host"


def adhoc(options: Options) -> tuple[EgressRule, ...]:
    """One rule a host, by TLS."""
    hosts = parse_hosts(options.hosts)
    return tuple(EgressRule.of_place(f"host-{number}", to) for number, to in enumerate(hosts, 1))


def narrow(policy: Policy, options: Options) -> tuple[EgressRule, ...]:
    """These hosts and no others; one that the policy does not allow is an error."""
    hosts = parse_hosts(options.hosts)
    if not hosts:
        return policy.egress
    for to in hosts:
        if isinstance(decide_egress(policy, to, "tls", ()), Deny):
            hint = "widen the policy's [[egress]] rules, or leave it out"
            raise PolicyError(_OPTION, f"{to.text} is not within what the policy allows", hint)
    return tuple(part for rule in policy.egress for part in _only(rule, hosts))


def above(rule: EgressRule, bound: EgressBound) -> str | None:
    for pattern in rule.hosts:
        if bound.hosts and not any(wide.covers(pattern) for wide in bound.hosts):
            return pattern.text
    if rule.allow_private and not bound.private:
        return f"private addresses of {rule.hosts[0].text}"
    return None


def parse_hosts(texts: Sequence[str]) -> tuple[Destination, ...]:
    """PolicyError for what is not a name, or a name and a port."""
    return tuple(dict.fromkeys(parse_at(_OPTION, text, _host) for text in texts))


def _host(text: str) -> Destination:
    try:
        found = parse_destination(
            (text if ":" in text else f"{text}:{DEFAULT_PORTS['tls']}").encode()
        )
    except Malformed as error:
        raise BadPattern(error.what, "write a host, or a host and a port") from None
    HostPattern(found.host.text)  # what a rule may not name, an option may not either
    return found


def _only(rule: EgressRule, hosts: Sequence[Destination]) -> Sequence[EgressRule]:
    """Rules that deny stay as they are; of one that allows, what was named."""
    if rule.effect != "allow":
        return (rule,)
    named = [to for to in hosts if rule.applies(to.host) and rule.covers(to.port)]
    return [
        evolve(
            rule,
            id=rule.id if number == 0 else f"{rule.id}.{number}",
            hosts=(HostPattern(to.host.text),),
            ports=(to.port,),
        )
        for number, to in enumerate(named)
    ]
