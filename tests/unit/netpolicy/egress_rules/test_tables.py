import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.receivepack import Change, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.format.document import (
    PolicyError,
    parse_policy,
    policy_digest,
    policy_from_mapping,
    policy_to_mapping,
)
from netpolicy.narrowing import adhoc_policy
from netpolicy.policy import GitTest, Limits, Policy, Session, Tier
from netpolicy.rule_kind import NamedRepository, Options
from tests.fakes.policies import patient, policies

EXAMPLE = """
version = 1
name = "agents"
[session]
ttl = "8h"
idle = "30m"
[limits]
git_requests_per_minute = 120
git_concurrency = 4
push_max = "200MiB"
fetch_max = "4GiB"
egress_connections = 64
[[git]]
id = "app"
repos = ["github:acme/app", "github:acme/web-*"]
fetch = true
push = { branches = ["agent/**"], tags = [], create = true, update = true, delete = false }
who = ["helper"]
[[git]]
id = "no-secrets"
effect = "deny"
repos = ["github:acme/*-secrets"]
[[egress]]
id = "artifacts"
hosts = ["mirror.corp.example", "*.cdn.corp.example"]
[preset]
use = ["pip", "npm", "go"]
[[test]]
expect = "deny"
push = "github:acme/app refs/heads/main"
"""
RULE = '[[git]]\nrepos = ["github:acme/app"]\n'
HEAD = 'version = 1\nname = "p"\n'


def test_the_documented_example_is_read_as_documented() -> None:
    policy = parse_policy(EXAMPLE)
    app, secrets = policy.git
    assert (policy.name, policy.session) == ("agents", Session(ttl=28800, idle=1800))
    assert policy.limits == Limits(120, 4, 200 * 2**20, 4 * 2**30, 64 * 2**30, 64)
    assert [pattern.text for pattern in app.repos] == ["github:acme/app", "github:acme/web-*"]
    assert app.push is not None
    assert [pattern.text for pattern in app.push.branches] == ["refs/heads/agent/**"]
    assert (app.push.create, app.push.update, app.push.delete) == (True, True, False)
    assert secrets.denies_everything
    assert policy.egress[0].ports == (443,)
    assert policy.egress[0].scheme == "tls"
    assert policy.presets == ("pip", "npm", "go")
    (test,) = policy.tests
    assert isinstance(test, GitTest)
    assert (test.upstream, test.repository) == ("github", RepositoryPath("acme/app"))
    assert (test.ref, test.change) == (RefName("refs/heads/main"), Change.UPDATE)
    assert (test.expect, test.who) == ("deny", Tier.HELPER)


def test_a_policy_without_rules_is_a_policy_that_allows_nothing() -> None:
    assert parse_policy(HEAD) == Policy("p", Session(), Limits(), (), (), (), ())


def test_a_forgotten_who_opens_nothing_and_denies_everybody() -> None:
    allow = parse_policy(HEAD + RULE + "fetch = true").git[0]
    deny = parse_policy(HEAD + RULE + 'effect = "deny"').git[0]
    assert allow.who == {Tier.HELPER}
    assert deny.who == {Tier.HELPER, Tier.UNTRUSTED}


def test_a_forgotten_fetch_or_delete_is_not_granted() -> None:
    rule = parse_policy(HEAD + RULE + 'push = { branches = ["agent/**"] }').git[0]
    assert not rule.fetch
    assert rule.push is not None
    assert not rule.push.delete
    assert not rule.push.workflows


def test_a_deny_rule_for_refs_denies_every_change_it_does_not_exempt() -> None:
    rule = parse_policy(HEAD + RULE + 'effect = "deny"\npush = { branches = ["main"] }').git[0]
    assert rule.push is not None
    assert (rule.push.create, rule.push.update, rule.push.delete) == (True, True, True)
    assert not rule.denies_everything


def test_rules_without_an_id_are_counted() -> None:
    policy = parse_policy(HEAD + (RULE + "fetch = true\n") * 2)
    assert [rule.id for rule in policy.git] == ["git-1", "git-2"]


@patient
@given(policies())
def test_the_mapping_round_trips_exactly_through_json(policy: Policy) -> None:
    mapping = policy_to_mapping(policy)
    carried: dict[str, Any] = json.loads(json.dumps(mapping))
    assert carried == mapping
    assert policy_from_mapping(carried) == policy
    assert policy_to_mapping(policy_from_mapping(carried)) == mapping


@patient
@given(policies(), policies())
def test_the_digest_tells_policies_apart(one: Policy, other: Policy) -> None:
    assert (policy_digest(one) == policy_digest(other)) == (one == other)


@patient
@given(policies(), st.data())
def test_the_mapping_has_no_key_that_may_be_misspelt(policy: Policy, data: st.DataObject) -> None:
    mapping = policy_to_mapping(policy)
    key = data.draw(st.sampled_from(["session", "limits", "preset", ""]))
    target: Any = mapping[key] if key else mapping
    target["unknown"] = 1
    with pytest.raises(PolicyError, match="unknown key"):
        policy_from_mapping(mapping)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@patient
@given(
    st.fixed_dictionaries(
        {"version": st.just(1), "name": st.just("p")},
        optional=dict.fromkeys(("session", "limits", "git", "egress", "preset", "test"), _json),
    )
)
def test_any_mapping_is_a_policy_or_a_policy_error(data: dict[str, object]) -> None:
    try:
        policy = policy_from_mapping(data)
    except PolicyError as error:
        assert error.path
    else:
        assert policy_from_mapping(policy_to_mapping(policy)) == policy


@patient
@given(policies(), st.data())
def test_a_mapping_with_one_value_swapped_is_a_policy_or_a_policy_error(
    policy: Policy, data: st.DataObject
) -> None:
    mapping: Any = policy_to_mapping(policy)
    tables = [mapping, mapping["session"], mapping["limits"], *mapping["git"], *mapping["test"]]
    table = data.draw(st.sampled_from(tables))
    table[data.draw(st.sampled_from(sorted(table)))] = data.draw(_json)
    try:
        policy_from_mapping(mapping)
    except PolicyError as error:
        assert error.what


APP = NamedRepository("github", RepositoryPath("acme/app"), True)


def test_an_adhoc_policy_is_one_rule_for_these_repositories() -> None:
    policy = adhoc_policy("job", Options((APP,), ("agent/**",), ttl=600))
    (rule,) = policy.git
    assert policy.session.ttl == 600
    assert rule.who == {Tier.HELPER}
    assert rule.fetch
    assert rule.push is not None
    assert not rule.push.delete
    assert [pattern.text for pattern in rule.push.branches] == ["refs/heads/agent/**"]
    assert policy_from_mapping(policy_to_mapping(policy)) == policy


def test_an_adhoc_policy_for_an_agent_opens_both_tiers_and_without_push_none() -> None:
    (rule,) = adhoc_policy("job", Options((APP,), agent=True)).git
    assert rule.who == set(Tier)
    assert rule.push is None


def test_an_adhoc_policy_without_repositories_allows_nothing() -> None:
    assert adhoc_policy("job", Options(agent=True)).git == ()


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (Options((APP, APP)), "--repo"),
        (Options((APP,), ("a b",)), "--push"),
        (Options((APP,), ("refs/heads/x",)), "--push"),
        (Options(push=("x",)), "--push"),
        (Options((APP,), ttl=0), "--ttl"),
        (Options((APP,), ttl=-5), "--ttl"),
        (Options((APP,), ttl=10**9), "--ttl"),
    ],
)
def test_a_bad_adhoc_policy_names_the_option(options: Options, option: str) -> None:
    with pytest.raises(PolicyError) as caught:
        adhoc_policy("job", options)
    assert caught.value.path == option
