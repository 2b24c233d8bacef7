"""What the options of one run leave of rules about repositories, and what a ceiling does not cover.

Rules that deny stay as they are; rules that allow lose what was not named. A glob is taken when a
pattern of the rule covers it, and a pattern of the rule when a glob covers it; two that only
overlap cannot be written as one pattern and are refused.
"""

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from netpolicy.format.reading import PolicyError, open_table, parse_at
from netpolicy.git_rules.tables import read_rule
from netpolicy.patterns.forgenames import companion, may_match_ref
from netpolicy.patterns.matchers import (
    RefPattern,
    RepoPattern,
    parse_branch_pattern,
    segments_cover,
)
from netpolicy.policy import GitBound, GitRule, Policy, PushRule, Tier
from netpolicy.rule_kind import NamedRepository, Options

_NOT_SHORT = "refs/heads/refs/"  # a branch that a document must spell in full


def adhoc(options: Options) -> tuple[GitRule, ...]:
    """One rule for these repositories alone."""
    if options.push and not options.repos:
        raise PolicyError("--push", "needs a --repo to push to")
    if not options.repos:
        return ()
    repos = [f"{each.upstream}:{each.path.text}" for each in options.repos]
    who = [tier.value for tier in Tier if tier is Tier.HELPER or options.agent]
    rule: dict[str, object] = {"id": "adhoc", "repos": repos, "fetch": True, "who": who}
    if options.push:
        rule["push"] = {"branches": list(options.push)}
    try:
        return (read_rule(open_table(rule), 1),)
    except PolicyError as error:
        option = "--push" if error.path.startswith("push") else "--repo"
        raise PolicyError(option, error.what, error.hint) from None


def narrow(policy: Policy, options: Options) -> tuple[GitRule, ...]:
    rules: tuple[GitRule, ...] = policy.git
    if options.repos:
        rules = tuple(_each(rules, lambda rule: _only_repositories(rule, options.repos)))
    if options.push:
        globs = [parse_at("--push", text, parse_branch_pattern) for text in options.push]
        _check_all_reach(rules, globs)
        rules = tuple(_each(rules, lambda rule: _only_refs(rule, globs)))
    return rules


def above(rule: GitRule, bound: GitBound) -> str | None:
    if rule.push is not None and not bound.push:
        return "pushing"
    for pattern in rule.repos:
        if bound.repos and not _covered(pattern, bound.repos):
            return pattern.text
    return None


def _covered(pattern: RepoPattern, within: Sequence[RepoPattern]) -> bool:
    return any(
        wide.upstream == pattern.upstream and covers_path(wide.path, pattern.path)
        for wide in within
    )


def _each(
    rules: Sequence[GitRule], change: Callable[[GitRule], GitRule | None]
) -> Iterator[GitRule]:
    """Changes each rule that allows and drops it if nothing is left; rules that deny stay."""
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
    """`--push` covers branches only, and creating and updating them."""
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
    return may_match_ref(wide.text, narrow.text) and _covers(wide.text, narrow.text)


def covers_path(wide: str, narrow: str) -> bool:
    """The same of repositories: a companion that is spelled is covered only where it is spelled."""
    found = companion(narrow)
    if found is None:
        return _covers(wide, narrow)
    owners = found.without_tail(wide)
    return owners is not None and covers_path(owners, found.owner)


def _covers(wide: str, narrow: str) -> bool:
    return segments_cover(wide.split("/"), narrow.split("/"))
