from random import Random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.receivepack import Change, Command, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.decision import (
    Allow,
    Deny,
    PushDenied,
    decide_fetch,
    decide_push,
    decide_repository,
)
from netpolicy.format.document import parse_policy
from netpolicy.policy import GitRule, Policy, Tier
from tests.fakes import policies
from tests.fakes.slow_matching import slow_match

AGENTS = """
version = 1
name = "agents"
[[git]]
id = "app"
repos = ["github:acme/*"]
fetch = true
push = { branches = ["agent/**"], tags = ["v*"] }
who = ["helper", "untrusted"]
[[git]]
id = "tidy"
repos = ["github:acme/app"]
push = { branches = ["agent/old/**"], create = false, update = false, delete = true }
[[git]]
id = "gate"
repos = ["github:acme/tools"]
fetch = true
[[git]]
id = "no-secrets"
effect = "deny"
repos = ["github:acme/*-secrets"]
[[git]]
id = "no-release"
effect = "deny"
repos = ["github:acme/*"]
push = { branches = ["agent/release"], tags = ["v0"] }
[[git]]
id = "drop-box"
repos = ["github:box/in"]
push = { branches = ["**"] }
[[git]]
id = "write-only"
effect = "deny"
repos = ["github:acme/blind"]
fetch = true
"""
POLICY = parse_policy(AGENTS)


def see(path: str, tier: Tier = Tier.HELPER, fold: bool = False) -> Allow | Deny:
    return decide_repository(POLICY, "github", RepositoryPath(path), tier, fold)


def fetch(path: str, tier: Tier = Tier.HELPER, fold: bool = False) -> Allow | Deny:
    return decide_fetch(POLICY, "github", RepositoryPath(path), tier, fold)


def push(
    path: str, *asked: tuple[Change, str], tier: Tier = Tier.HELPER, fold: bool = False
) -> Allow | PushDenied:
    commands = [Command(*policies.OBJECTS[change], RefName(ref)) for change, ref in asked]
    return decide_push(POLICY, "github", RepositoryPath(path), tier, fold, commands)


def test_what_a_rule_names_is_seen_and_fetched() -> None:
    assert see("acme/app") == fetch("acme/app") == Allow("app")


@pytest.mark.parametrize("path", ["acme/x-secrets", "acme/X-Secrets", "other/app", "acme"])
@pytest.mark.parametrize("fold", [False, True])
def test_forbidden_and_unknown_repositories_have_one_code(path: str, fold: bool) -> None:
    seen = see(path, fold=fold)
    assert isinstance(seen, Deny)
    assert seen.code == "G101"
    assert fetch(path, fold=fold) == seen
    denied = push(path, (Change.CREATE, "refs/heads/agent/x"), fold=fold)
    assert isinstance(denied, PushDenied)
    reasons = {"refs/heads/agent/x": "this repository is not available here"}
    assert (denied.code, denied.reasons) == ("G101", reasons)


def test_a_deny_rule_folds_case_though_the_upstream_does_not() -> None:
    assert see("acme/APP-SECRETS", fold=False) == Deny("G101", "a rule denies it", "no-secrets")


def test_case_is_folded_for_allow_rules_only_if_the_upstream_says_so() -> None:
    assert isinstance(see("ACME/app", fold=False), Deny)
    assert see("ACME/app", fold=True) == Allow("app")


def test_another_upstream_has_nothing_of_it() -> None:
    seen = decide_repository(POLICY, "corp", RepositoryPath("acme/app"), Tier.HELPER, True)
    assert seen == Deny("G101", "no rule names it")


def test_a_rule_for_the_gate_says_nothing_to_the_command() -> None:
    policy = evolve(POLICY, git=tuple(rule for rule in POLICY.git if rule.id == "gate"))
    where = (policy, "github", RepositoryPath("acme/tools"))
    assert decide_fetch(*where, Tier.HELPER, False) == Allow("gate")
    assert decide_fetch(*where, Tier.UNTRUSTED, False) == Deny("G101", "no rule names it")


def test_a_repository_that_may_only_be_pushed_to_is_not_fetched() -> None:
    assert see("box/in") == Allow("drop-box")
    assert fetch("box/in") == Deny("G105", "no rule allows to fetch it")
    assert fetch("acme/blind") == Deny("G105", "a rule denies it", "write-only")
    assert push("acme/blind", (Change.CREATE, "refs/heads/agent/x")) == Allow("app")


def test_a_push_of_allowed_refs_names_the_rules_that_allowed_it() -> None:
    allowed = push(
        "acme/app",
        (Change.CREATE, "refs/heads/agent/a"),
        (Change.UPDATE, "refs/tags/v1"),
        (Change.DELETE, "refs/heads/agent/old/b"),
    )
    assert allowed == Allow("app,tidy")


def test_one_denied_ref_denies_the_whole_push() -> None:
    denied = push(
        "acme/app",
        (Change.CREATE, "refs/heads/agent/a"),
        (Change.UPDATE, "refs/heads/main"),
        (Change.DELETE, "refs/heads/agent/c"),
    )
    assert denied == PushDenied(
        "G201",
        {
            "refs/heads/agent/a": "refused with the rest",
            "refs/heads/main": "pushing to this ref is not allowed (G201)",
            "refs/heads/agent/c": "deleting this ref is not allowed (G202)",
        },
    )


@pytest.mark.parametrize(
    ("change", "ref", "code"),
    [
        (Change.CREATE, "refs/heads/main", "G201"),
        (Change.UPDATE, "refs/heads/agent", "G201"),
        (Change.CREATE, "refs/heads/Agent/x", "G201"),
        (Change.CREATE, "refs/pull/1/head", "G201"),
        (Change.CREATE, "refs/for/main", "G201"),
        (Change.CREATE, "refs/heads/v1", "G201"),
        (Change.CREATE, "refs/tags/agent/x", "G201"),
        (Change.DELETE, "refs/heads/agent/x", "G202"),
        (Change.DELETE, "refs/heads/main", "G202"),
        (Change.CREATE, "refs/heads/agent/release", "G201"),
        (Change.CREATE, "refs/heads/agent/Release", "G201"),
        (Change.UPDATE, "refs/tags/v0", "G201"),
    ],
)
def test_refs_that_no_rule_opens_or_that_one_closes(change: Change, ref: str, code: str) -> None:
    denied = push("acme/app", (change, ref), tier=Tier.UNTRUSTED)
    assert isinstance(denied, PushDenied)
    assert denied.code == code


def test_changes_of_one_rule_do_not_lend_themselves_to_another() -> None:
    assert isinstance(push("acme/web", (Change.DELETE, "refs/heads/agent/old/b")), PushDenied)
    untrusted = push("acme/app", (Change.DELETE, "refs/heads/agent/old/b"), tier=Tier.UNTRUSTED)
    assert isinstance(untrusted, PushDenied)


def test_the_probe_before_a_large_push_is_decided_by_the_repository() -> None:
    assert push("acme/app") == Allow("app")
    assert push("other/app") == PushDenied("G101", {})


def test_an_empty_policy_denies_everything() -> None:
    empty = parse_policy('version = 1\nname = "none"')
    for tier in Tier:
        assert decide_repository(empty, "github", RepositoryPath("a/b"), tier, True) == Deny(
            "G101", "no rule names it"
        )


def owner_of(path: str) -> str | None:
    """The repository whose wiki this is."""
    below = path.lower().endswith("/wiki") and path.count("/") >= 2
    beside = path.lower().endswith(".wiki") and path[:-5].rpartition("/")[2]
    return path[:-5] if below or beside else None


def denied_with(path: str) -> list[str]:
    """The path without what Gerrit may have in front, and all they belong to."""
    names = [path, path.removeprefix("a/")]
    for name in names:
        owner = owner_of(name)
        names += [owner] if owner is not None else []
    return names


def takes_in(pattern: str, path: str) -> bool:
    owner = owner_of(path)
    if owner is None:
        return slow_match(pattern.split("/"), path.split("/"))
    return pattern.endswith(path[-5:]) and takes_in(pattern[:-5], owner)


def speaks(rule: GitRule, upstream: str, path: str, tier: Tier, fold: bool) -> bool:
    """Whether a rule is about the repository, by trying everything."""
    patterns = [each.path for each in rule.repos if each.upstream == upstream]
    if tier not in rule.who:
        return False
    if rule.effect == "deny":
        pairs = [(p.lower(), name) for p in patterns for name in denied_with(path.lower())]
        return any(slow_match(pattern.split("/"), name.split("/")) for pattern, name in pairs)
    if fold:
        return any(takes_in(pattern.lower(), path.lower()) for pattern in patterns)
    return any(takes_in(pattern, path) for pattern in patterns)


def speaks_of_ref(rule: GitRule, command: Command) -> bool:
    if rule.push is None or not getattr(rule.push, command.change.value):
        return False
    wide = rule.effect == "deny"
    ref = command.ref.text.lower() if wide else command.ref.text
    patterns = [*rule.push.branches, *rule.push.tags, *rule.push.refs]
    texts = [pattern.text.lower() if wide else pattern.text for pattern in patterns]
    return any(slow_match(text.split("/"), ref.split("/")) for text in texts)


@policies.patient
@given(
    policies.policies(),
    policies.upstream_names,
    policies.repositories,
    policies.tiers,
    st.booleans(),
    st.lists(policies.commands, max_size=3, unique_by=lambda command: command.ref),
)
def test_decisions_agree_with_the_stated_rules(
    policy: Policy,
    upstream: str,
    repository: RepositoryPath,
    tier: Tier,
    fold: bool,
    commands: list[Command],
) -> None:
    rules = [r for r in policy.git if speaks(r, upstream, repository.text, tier, fold)]
    allows = [rule for rule in rules if rule.effect == "allow"]
    denies = [rule for rule in rules if rule.effect == "deny"]
    closed = any(not rule.fetch and rule.push is None for rule in denies)
    seen = bool(allows) and not closed
    fetched = seen and any(r.fetch for r in allows) and not any(r.fetch for r in denies)
    pushed = seen and all(
        any(speaks_of_ref(rule, command) for rule in allows)
        and not any(speaks_of_ref(rule, command) for rule in denies)
        for command in commands
    )
    where = (policy, upstream, repository, tier, fold)
    assert isinstance(decide_repository(*where), Allow) == seen
    assert isinstance(decide_fetch(*where), Allow) == fetched
    verdict = decide_push(*where, commands)
    assert isinstance(verdict, Allow) == pushed
    if isinstance(verdict, PushDenied):
        assert list(verdict.reasons) == [command.ref.text for command in commands]


@policies.patient
@given(policies.policies(), policies.repositories, policies.tiers, st.booleans(), st.randoms())
def test_the_order_of_rules_never_matters(
    policy: Policy, repository: RepositoryPath, tier: Tier, fold: bool, random: Random
) -> None:
    rules = list(policy.git)
    random.shuffle(rules)
    shuffled = evolve(policy, git=tuple(rules))
    for decide in (decide_repository, decide_fetch):
        one = decide(policy, "github", repository, tier, fold)
        other = decide(shuffled, "github", repository, tier, fold)
        assert type(one) is type(other)


@policies.patient
@given(policies.policies(), policies.git_rules, policies.repositories, policies.tiers)
def test_another_deny_rule_never_opens_anything(
    policy: Policy, rule: GitRule, repository: RepositoryPath, tier: Tier
) -> None:
    closed = evolve(policy, git=(*policy.git, evolve(rule, id="more", effect="deny")))
    if isinstance(decide_fetch(policy, "github", repository, tier, True), Deny):
        assert isinstance(decide_fetch(closed, "github", repository, tier, True), Deny)
