"""What a valid rule about repositories may still say by mistake."""

from collections.abc import Collection, Iterator

from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.patterns.forgenames import companion
from netpolicy.patterns.matchers import RepoPattern, segments_match
from netpolicy.policy import GitRule, Policy
from netpolicy.rule_kind import CheckContext, Remark
from netpolicy.upstreams import UpstreamTable

_SOME_COMPANIONS = ("\0.wiki", "\0.design")


def lint(policy: Policy, context: CheckContext) -> Iterator[Remark]:
    for index, rule in enumerate(policy.git):
        path = f"git[{index}]"
        yield from _of_upstreams(path, rule, context.upstreams)
        if rule.effect == "allow":
            yield from _of_forge_names(path, rule)
            if _overruled(rule, policy.git):
                what = f"rule {rule.id} allows only what other rules deny"
                yield Remark(path, what, "deny beats allow: remove one of them")


def _of_upstreams(path: str, rule: GitRule, known: UpstreamTable) -> Iterator[Remark]:
    for index, pattern in enumerate(rule.repos):
        if known.upstreams and known.by_name(pattern.upstream) is None:
            what = f"there is no upstream {pattern.upstream!r}"
            yield Remark(f"{path}.repos[{index}]", what, "`hostctl upstream ls` lists them")


def _of_forge_names(path: str, rule: GitRule) -> Iterator[Remark]:
    """Wildcards that match less than their text suggests."""
    for index, pattern in enumerate(rule.repos):
        if _means_companions(pattern):
            what = f"{pattern.text} matches no wiki, and no other repository that belongs to one"
            hint = "write the suffix, as in `acme/*.wiki`: a wildcard never covers it"
            yield Remark(f"{path}.repos[{index}]", what, hint)
    for index, ref in enumerate(rule.push.refs if rule.push is not None else ()):
        if "*" in ref.text.split("/")[1]:
            what = f"{ref.text} matches branches and tags only"
            hint = "name every other kind of ref, as in `refs/notes/**`"
            yield Remark(f"{path}.push.refs[{index}]", what, hint)


def _means_companions(pattern: RepoPattern) -> bool:
    """Its last segment matches a companion's name as plain text, and does not spell the suffix."""
    last = pattern.path.rpartition("/")[2]
    fits = any(segments_match((last,), (each,)) for each in _SOME_COMPANIONS)
    return fits and bool(last.strip("*")) and companion(pattern.path) is None


def _overruled(rule: GitRule, rules: Collection[GitRule]) -> bool:
    """Every repository it names is denied to every tier that it allows: by the same pattern, or
    because a rule denies that one repository, or the one to which it belongs."""
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
