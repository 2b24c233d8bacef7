"""What a valid policy may still say by mistake: wider than it looks, or of no effect."""

from collections.abc import Callable, Collection, Iterator

from attrs import frozen

from netpolicy.matchers import HostPattern
from netpolicy.policy import EgressRule, GitRule, Policy, Session

IsShared = Callable[[str], bool]  # does this domain belong to everybody, or to many tenants?


@frozen
class Remark:
    """`path` is the key it is about; `refused`: nothing runs with it until it is corrected."""

    path: str
    what: str
    hint: str
    refused: bool = False


def lint(
    policy: Policy,
    is_shared: IsShared,
    upstreams: Collection[str] | None,
    git_hosts: Collection[str],
) -> list[Remark]:
    """`upstreams` are the configured names, None where they are not known."""
    found: list[Remark] = []
    for index, rule in enumerate(policy.egress):
        if rule.effect == "allow":
            found += _of_hosts(f"egress[{index}]", rule, is_shared, git_hosts)
    for index, git_rule in enumerate(policy.git):
        found += _of_upstreams(f"git[{index}]", git_rule, upstreams)
    found += _without_effect(policy)
    return found


def _of_hosts(
    path: str, rule: EgressRule, is_shared: IsShared, git_hosts: Collection[str]
) -> Iterator[Remark]:
    for index, pattern in enumerate(rule.hosts):
        where = f"{path}.hosts[{index}]"
        domain = shared_domain(pattern, is_shared)
        if domain is not None and not rule.allow_shared:
            what = f"{pattern.text} takes in what anybody may put below {domain}"
            hint = "name the hosts, or set allow_shared = true if that is meant"
            yield Remark(where, what, hint, refused=True)
        if pattern.text in git_hosts:
            what = f"{pattern.text} is a git server: this opens its pages and API, past git's rules"
            yield Remark(where, what, "git itself needs no such rule")


def shared_domain(pattern: HostPattern, is_shared: IsShared) -> str | None:
    """The domain below which a wildcard takes in everything, if strangers can be there too."""
    labels = pattern.text.split(".")
    wild = [index for index, label in enumerate(labels) if "*" in label]
    if not wild:
        return None
    domain = ".".join(labels[wild[-1] + 1 :])
    return domain if is_shared(domain) else None


def _of_upstreams(path: str, rule: GitRule, upstreams: Collection[str] | None) -> Iterator[Remark]:
    for index, pattern in enumerate(rule.repos):
        if upstreams is not None and pattern.upstream not in upstreams:
            what = f"there is no upstream {pattern.upstream!r}"
            yield Remark(f"{path}.repos[{index}]", what, "`hostctl upstream ls` lists them")


def _without_effect(policy: Policy) -> Iterator[Remark]:
    # The default is nobody's mistake.
    if Session().idle != policy.session.idle > policy.session.ttl:
        yield Remark("session.idle", "is longer than session.ttl", "it never ends a session")
    for index, rule in enumerate(policy.git):
        if rule.effect == "allow" and _overruled(rule, policy.git):
            what = f"rule {rule.id} allows only what other rules deny"
            yield Remark(f"git[{index}]", what, "deny beats allow: take one of them out")


def _overruled(rule: GitRule, rules: Collection[GitRule]) -> bool:
    """Every repository it names is denied in these very words, to everybody it allows it."""
    denied = {
        pattern
        for other in rules
        if other.denies_everything and rule.who <= other.who
        for pattern in other.repos
    }
    return set(rule.repos) <= denied
