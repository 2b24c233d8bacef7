"""Options narrow a named policy: what is left is allowed by the policy and by the options."""

from __future__ import annotations

from itertools import product

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from gitmoat.wire.git.receivepack import Change, Command, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.decision import Allow, decide_fetch, decide_push, decide_repository
from netpolicy.format.document import parse_policy, policy_from_mapping, policy_to_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.git_rules.options import covers
from netpolicy.narrowing import narrow
from netpolicy.patterns.matchers import RepoPattern, parse_branch_pattern
from netpolicy.policy import GitRule, Policy, PushRule, Tier
from netpolicy.rule_kind import NamedRepository, Options
from tests.fakes.examples import examples
from tests.fakes.policies import EFFECTS, OBJECTS, changes, patient, policies, tiers

AGENTS = parse_policy("""
version = 1
name = "agents"
[session]
ttl = "8h"
[[git]]
id = "app"
repos = ["github:acme/app", "github:acme/web-*"]
fetch = true
push = { branches = ["agent/**", "main"], tags = ["v*"], delete = true }
who = ["helper", "untrusted"]
[[git]]
id = "docs"
repos = ["github:acme/docs"]
fetch = true
[[git]]
id = "never"
effect = "deny"
repos = ["github:acme/*-secrets"]
""")
APP = NamedRepository("github", RepositoryPath("acme/app"), True)
WEB = NamedRepository("github", RepositoryPath("acme/web-shop"), True)

# Few names and short patterns, so that policy, options and requests meet often.
PATTERNS = ["/".join(p) for n in (1, 2, 3) for p in product(["a", "b", "*", "**", "a*"], repeat=n)]
REFS = [
    RefName("refs/heads/" + "/".join(p))
    for n in (1, 2, 3, 4)
    for p in product(["a", "b", "ab"], repeat=n)
]
# Whether an upstream ignores case is a fact about it, the same for every request.
FOLDS = {"github": True, "corp": False}
NAMED = [
    NamedRepository(upstream, RepositoryPath(path), fold)
    for upstream, fold in FOLDS.items()
    for path in ("a/b", "A/b", "a/c")
]
named = st.sampled_from(NAMED)
globs = st.sampled_from(PATTERNS)
asked_refs = st.sampled_from(REFS)
asked = st.builds(lambda kind, ref: Command(*OBJECTS[kind], ref), changes, asked_refs)
refs = st.lists(globs.map(parse_branch_pattern), min_size=1, max_size=2, unique=True).map(tuple)
pushing = st.builds(
    PushRule, refs, st.just(()), st.just(()), st.booleans(), st.booleans(), st.booleans(),
    st.just(False),
).filter(lambda push: push.create or push.update or push.delete)  # fmt: skip
repo_patterns = st.sampled_from(
    [RepoPattern(upstream, path) for upstream in FOLDS for path in ("a/b", "A/b", "a/*", "**")]
)
rules = st.builds(
    GitRule,
    id=st.just("r"),
    effect=st.sampled_from(EFFECTS),
    repos=st.lists(repo_patterns, min_size=1, max_size=2, unique=True).map(tuple),
    fetch=st.booleans(),
    push=pushing,
    who=st.just(frozenset(Tier)),
)
Case = tuple[Policy, Options]
cases = st.tuples(
    st.lists(rules, min_size=1, max_size=3).map(lambda git: evolve(AGENTS, git=tuple(git))),
    st.builds(
        Options,
        repos=st.lists(named, max_size=2).map(tuple),
        push=st.lists(globs, max_size=2).map(tuple),
        ttl=st.none() | st.integers(1, 8 * 3600),
    ),
)
thorough = settings(
    deadline=None, max_examples=examples(400), suppress_health_check=list(HealthCheck)
)


def narrowed(case: Case) -> Policy:
    try:
        return narrow(*case)
    except PolicyError:
        reject()


def allows(policy: Policy, repo: NamedRepository, tier: Tier, command: Command) -> tuple[bool, ...]:
    where = (policy, repo.upstream, repo.path, tier, repo.fold)
    verdicts = decide_repository(*where), decide_fetch(*where), decide_push(*where, [command])
    return tuple(isinstance(verdict, Allow) for verdict in verdicts)


@thorough
@given(cases, named, tiers, asked)
def test_never_wider_than_the_named_policy(
    case: Case, repo: NamedRepository, tier: Tier, command: Command
) -> None:
    policy, result = case[0], narrowed(case)
    before, after = (allows(each, repo, tier, command) for each in (policy, result))
    assert all(old or not new for old, new in zip(before, after, strict=True))
    assert result.session.ttl <= policy.session.ttl
    assert _untouched(policy) == _untouched(result)


def _untouched(policy: Policy) -> tuple[object, ...]:
    denying = [rule for rule in policy.git if rule.effect == "deny"]
    return policy.limits, policy.egress, policy.presets, denying


@thorough
@given(cases, named, tiers, asked)
def test_never_wider_than_the_options(
    case: Case, repo: NamedRepository, tier: Tier, command: Command
) -> None:
    _, options = case
    result = narrowed(case)
    seen, _, pushed = allows(result, repo, tier, command)
    if seen and options.repos:
        assert any(_same(repo, each) for each in options.repos)
    if pushed and options.push:
        assert any(parse_branch_pattern(glob).matches(command.ref) for glob in options.push)
        assert command.change is not Change.DELETE
    assert options.ttl is None or result.session.ttl == options.ttl


def _same(one: NamedRepository, other: NamedRepository) -> bool:
    texts = {text.lower() if one.fold else text for text in (one.path.text, other.path.text)}
    return one.upstream == other.upstream and len(texts) == 1


@thorough
@given(cases)
def test_the_result_can_be_written_into_a_grant(case: Case) -> None:
    result = narrowed(case)
    result = evolve(result, git=tuple(evolve(r, id=f"r{n}") for n, r in enumerate(result.git)))
    assert policy_from_mapping(policy_to_mapping(result)) == result


@patient
@given(policies())
def test_without_options_only_its_own_tests_are_gone(policy: Policy) -> None:
    assert narrow(policy, Options()) == evolve(policy, tests=())


def test_a_covered_pattern_matches_nothing_that_its_cover_does_not() -> None:
    """Every pair of patterns, every ref: there are few enough."""
    patterns = [parse_branch_pattern(text) for text in PATTERNS]
    matched = {each: {ref for ref in REFS if each.matches(ref)} for each in patterns}
    for outer, inner in product(patterns, repeat=2):
        if covers(outer, inner):
            assert matched[inner] <= matched[outer], (outer.text, inner.text)


@pytest.mark.parametrize(
    ("wide", "narrow_", "covered"),
    [
        ("agent/**", "agent/**", True),
        ("agent/**", "agent/x/**", True),
        ("agent/**", "agent/x*/y", True),
        ("agent/**", "agent", False),
        ("agent/*", "agent/**", False),
        ("agent/*", "agent/*x*", True),
        ("a*", "a*b", True),
        ("a*b", "a*", False),
        ("**", "agent/**/x", True),
        ("*", "**", False),
        ("a/**/b", "a/**/c/b", True),
    ],
)
def test_what_covers_what(wide: str, narrow_: str, covered: bool) -> None:
    assert covers(parse_branch_pattern(wide), parse_branch_pattern(narrow_)) is covered


def fetches(policy: Policy, repo: NamedRepository) -> bool:
    return allows(policy, repo, Tier.HELPER, _command("agent/x", "create"))[1]


def _command(branch: str, change: str) -> Command:
    return Command(*OBJECTS[Change(change)], RefName(f"refs/heads/{branch}"))


def pushes(policy: Policy, repo: NamedRepository, branch: str, change: str = "create") -> bool:
    return allows(policy, repo, Tier.UNTRUSTED, _command(branch, change))[2]


def test_repositories_that_are_not_named_are_gone() -> None:
    result = narrow(AGENTS, Options((WEB,)))
    assert fetches(result, WEB) and pushes(result, WEB, "main")
    assert not fetches(result, APP)


def test_a_repository_that_the_policy_does_not_know_is_not_added() -> None:
    other = NamedRepository("github", RepositoryPath("acme/web-secrets"), True)
    strange = NamedRepository("github", RepositoryPath("evil/app"), True)
    result = narrow(AGENTS, Options((other, strange)))
    assert not fetches(result, other) and not fetches(result, strange)


def test_refs_are_those_that_both_name() -> None:
    result = narrow(AGENTS, Options(push=("agent/fix-*",)))
    assert pushes(result, APP, "agent/fix-1")
    assert not pushes(result, APP, "agent/other")
    assert not pushes(result, APP, "main")
    assert not pushes(result, APP, "agent/fix-1", "delete")


def test_a_wider_glob_leaves_the_policys_own() -> None:
    result = narrow(AGENTS, Options(push=("**",)))
    assert pushes(result, APP, "agent/x") and pushes(result, APP, "main")
    assert not pushes(result, APP, "topic")


@pytest.mark.parametrize("glob", ["topic", "topic/**", "*/x"])
def test_a_glob_outside_the_policy_is_refused_and_told_what_there_is(glob: str) -> None:
    with pytest.raises(PolicyError) as caught:
        narrow(AGENTS, Options(push=(glob,)))
    assert caught.value.path == "--push"
    assert "refs/heads/agent/**" in caught.value.hint


def test_time_is_only_shortened() -> None:
    assert narrow(AGENTS, Options(ttl=60)).session.ttl == 60
    with pytest.raises(PolicyError) as caught:
        narrow(AGENTS, Options(ttl=9 * 3600))
    assert caught.value.path == "--ttl"
    with pytest.raises(PolicyError):
        narrow(AGENTS, Options(ttl=0))
