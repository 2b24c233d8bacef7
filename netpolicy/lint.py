"""What a valid policy may still say by mistake: wider than it looks, or of no effect."""

from collections.abc import Callable, Collection, Iterator

from attrs import frozen

from gitwire.repository import RepositoryPath
from netpolicy.forgenames import companion
from netpolicy.matchers import HostPattern, RepoPattern, segments_match
from netpolicy.policy import EgressRule, GitRule, Policy, Session

_SOME_COMPANIONS = ("\0.wiki", "\0.design")
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
        if git_rule.effect == "allow":
            found += _of_forge_names(f"git[{index}]", git_rule)
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


def _of_forge_names(path: str, rule: GitRule) -> Iterator[Remark]:
    """Wildcards that take in less than their letters do."""
    for index, pattern in enumerate(rule.repos):
        if _means_companions(pattern):
            what = f"{pattern.text} takes in no wiki, and nothing else that belongs to a repository"
            hint = "a wildcard never does: spell the end, as in `acme/*.wiki`"
            yield Remark(f"{path}.repos[{index}]", what, hint)
    for index, ref in enumerate(rule.push.refs if rule.push is not None else ()):
        if "*" in ref.text.split("/")[1]:
            what = f"{ref.text} takes in branches and tags alone"
            hint = "name every other kind of ref, as in `refs/notes/**`"
            yield Remark(f"{path}.push.refs[{index}]", what, hint)


def _means_companions(pattern: RepoPattern) -> bool:
    """Its letters fit the end of a companion's name, and do not spell it."""
    last = pattern.path.rpartition("/")[2]
    fits = any(segments_match((last,), (each,)) for each in _SOME_COMPANIONS)
    return fits and bool(last.strip("*")) and companion(pattern.path) is None


def _without_effect(policy: Policy) -> Iterator[Remark]:
    # The default is nobody's mistake.
    if Session().idle != policy.session.idle > policy.session.ttl:
        yield Remark("session.idle", "is longer than session.ttl", "it never ends a session")
    for index, rule in enumerate(policy.git):
        if rule.effect == "allow" and _overruled(rule, policy.git):
            what = f"rule {rule.id} allows only what other rules deny"
            yield Remark(f"git[{index}]", what, "deny beats allow: take one of them out")


def _overruled(rule: GitRule, rules: Collection[GitRule]) -> bool:
    """Every repository it names is denied to everybody it allows it: in these very words, or
    because a rule denies the one repository that is meant, or the one it belongs to."""
    denied = [
        pattern
        for other in rules
        if other.denies_everything and rule.who <= other.who
        for pattern in other.repos
    ]
    return all(
        pattern in denied
        or ("*" not in pattern.path and any(_denies(other, pattern) for other in denied))
        for pattern in rule.repos
    )


def _denies(denied: RepoPattern, pattern: RepoPattern) -> bool:
    return denied.denies(pattern.upstream, RepositoryPath(pattern.path))
