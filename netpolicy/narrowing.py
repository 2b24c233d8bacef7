"""A named policy made narrower by what `hostctl run` was told besides: never wider, by anything.

Rules that deny stay as they are; rules that allow lose what was not named. A glob is taken when a
pattern of the rule covers it, and a pattern of the rule when a glob covers it; two that merely
overlap have no common spelling and are refused.
"""

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve, frozen

from gitwire.repository import RepositoryPath
from netpolicy.forgenames import companion, takes_in_ref
from netpolicy.matchers import RefPattern, RepoPattern, parse_branch_pattern, segments_match
from netpolicy.policy import GitRule, Policy, PushRule, Session
from netpolicy.reading import PolicyError, parse_at
from netpolicy.units import format_duration

_NOT_SHORT = "refs/heads/refs/"  # a branch that a document must spell in full


@frozen
class NamedRepository:
    """One repository; `fold` says whether its upstream ignores case."""

    upstream: str
    path: RepositoryPath
    fold: bool


def narrow(
    policy: Policy, repos: Sequence[NamedRepository], push: Sequence[str], ttl: int | None
) -> Policy:
    """What both the policy and the options allow; an option that is not given takes nothing."""
    rules: tuple[GitRule, ...] = policy.git
    if repos:
        rules = tuple(_each(rules, lambda rule: _only_repositories(rule, repos)))
    if push:
        globs = [parse_at("--push", text, parse_branch_pattern) for text in push]
        _check_all_reach(rules, globs)
        rules = tuple(_each(rules, lambda rule: _only_refs(rule, globs)))
    session = policy.session if ttl is None else _shorter(policy.session, ttl)
    # Its own tests were about the whole policy.
    return evolve(policy, git=rules, session=session, tests=())


def _each(
    rules: Sequence[GitRule], change: Callable[[GitRule], GitRule | None]
) -> Iterator[GitRule]:
    """Rules that allow, changed, unless nothing is left of them; rules that deny, as they are."""
    for rule in rules:
        changed = change(rule) if rule.effect == "allow" else rule
        if changed is not None:
            yield changed


def _only_repositories(rule: GitRule, repos: Sequence[NamedRepository]) -> GitRule | None:
    kept = tuple(
        RepoPattern(each.upstream, each.path.text)
        for each in repos
        if any(known.matches(each.upstream, each.path, each.fold) for known in rule.repos)
    )
    return evolve(rule, repos=tuple(dict.fromkeys(kept))) if kept else None


def _only_refs(rule: GitRule, globs: Sequence[RefPattern]) -> GitRule | None:
    push = None if rule.push is None else _common_push(rule.push, globs)
    return evolve(rule, push=push) if rule.fetch or push is not None else None


def _common_push(push: PushRule, globs: Sequence[RefPattern]) -> PushRule | None:
    """--push speaks of branches, and of making and updating them."""
    patterns = (*push.branches, *push.tags, *push.refs)
    common = tuple(dict.fromkeys(ref for known in patterns for ref in _common(known, globs)))
    if not common or not (push.create or push.update):
        return None
    branches = tuple(ref for ref in common if not ref.text.startswith(_NOT_SHORT))
    refs = tuple(ref for ref in common if ref not in branches)
    return evolve(push, branches=branches, tags=(), refs=refs, delete=False, workflows=False)


def _common(known: RefPattern, globs: Sequence[RefPattern]) -> Iterator[RefPattern]:
    for glob in globs:
        if covers(known, glob):
            yield glob
        elif covers(glob, known):
            yield known


def _check_all_reach(rules: Sequence[GitRule], globs: Sequence[RefPattern]) -> None:
    pushing = [rule.push for rule in rules if rule.effect == "allow" and rule.push is not None]
    for glob in globs:
        if not any(_common_push(push, [glob]) for push in pushing):
            allowed = [p.text for push in pushing for p in (*push.branches, *push.tags, *push.refs)]
            hint = f"it allows: {', '.join(allowed[:5])}" if allowed else "it allows no push"
            text = glob.text.removeprefix("refs/heads/")
            raise PolicyError("--push", f"{text} is not within what the policy allows", hint)


def covers(wide: RefPattern, narrow: RefPattern) -> bool:
    """Whether all that `narrow` matches, `wide` matches; False also when that is hard to tell."""
    return takes_in_ref(wide.text, narrow.text) and _covers(wide.text, narrow.text)


def covers_path(wide: str, narrow: str) -> bool:
    """The same of repositories: a companion that is spelled is covered only where it is spelled."""
    found = companion(narrow)
    if found is None:
        return _covers(wide, narrow)
    owners = found.without_tail(wide)
    return owners is not None and covers_path(owners, found.owner)


def _covers(wide: str, narrow: str) -> bool:
    pattern = wide.split("/")
    reached = {0}
    for segment in narrow.split("/"):
        reached = {after for at in reached for after in _steps(pattern, at, segment)}
    return len(pattern) in reached


def _steps(pattern: Sequence[str], at: int, segment: str) -> Iterator[int]:
    """A wildcard of the narrow pattern is a letter here, which only a wildcard can take."""
    if at == len(pattern):
        return
    if pattern[at] == "**":
        yield at
        yield at + 1
    elif segment != "**" and segments_match((pattern[at],), (segment,)):
        yield at + 1


def _shorter(session: Session, ttl: int) -> Session:
    if ttl < 1:
        raise PolicyError("--ttl", "no time at all")
    if ttl > session.ttl:
        hint = "give a shorter one, or change session.ttl in the policy"
        allowed = format_duration(session.ttl)
        raise PolicyError("--ttl", f"longer than the policy's {allowed}", hint)
    return evolve(session, ttl=ttl)
