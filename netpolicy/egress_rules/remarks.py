"""What a valid rule about hosts may still say by mistake."""

from collections.abc import Iterator

from attrs import asdict

from netpolicy.decision import Deny
from netpolicy.egress_rules.egress_decision import decide_egress
from netpolicy.patterns.matchers import HostPattern
from netpolicy.policy import EgressRule, Policy
from netpolicy.presets.index_url import place_of
from netpolicy.rule_kind import CheckContext, IsShared, Remark


def lint(policy: Policy, context: CheckContext) -> Iterator[Remark]:
    for index, rule in enumerate(policy.egress):
        if rule.effect == "allow":
            yield from _of_hosts(f"egress[{index}]", rule, context)
    for name, url in asdict(policy.index).items():
        if url:
            to, scheme = place_of(url)
            if isinstance(decide_egress(policy, to, scheme, context.upstreams.names), Deny):
                hint = f"name the host in an [[egress]] rule, or {name} is refused there"
                yield Remark(f"index.{name}", f"no rule allows {to.text}", hint)


def _of_hosts(path: str, rule: EgressRule, context: CheckContext) -> Iterator[Remark]:
    for index, pattern in enumerate(rule.hosts):
        where = f"{path}.hosts[{index}]"
        domain = shared_domain(pattern, context.is_shared)
        if domain is not None and not rule.allow_shared:
            what = f"{pattern.text} covers names that anybody may register below {domain}"
            hint = "name the hosts, or set allow_shared = true if that is meant"
            yield Remark(where, what, hint, refused=True)
        if pattern.text in context.upstreams.names:
            what = f"{pattern.text} is a git server: no git rule limits its web pages and API"
            yield Remark(where, what, "git itself needs no such rule")


def shared_domain(pattern: HostPattern, is_shared: IsShared) -> str | None:
    """The domain below which a wildcard covers every name, if it is a public suffix."""
    labels = pattern.text.split(".")
    wild = [index for index, label in enumerate(labels) if "*" in label]
    if not wild:
        return None
    domain = ".".join(labels[wild[-1] + 1 :])
    return domain if is_shared(domain) else None
