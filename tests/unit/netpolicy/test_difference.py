"""What a diff calls narrower never allows anything new."""

import pytest
from attrs import AttrsInstance, evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.hostname import Destination
from netpolicy.decision import Allow
from netpolicy.difference import Difference, compare
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress
from netpolicy.format.document import parse_policy
from netpolicy.format.key_rows import LIMITS, SESSION
from netpolicy.git_rules.asking import decide
from netpolicy.policy import GitTest, Limits, Policy, Scheme, Session
from netpolicy.rule_kind import GitServers
from tests.fakes.policies import (
    destinations,
    git_rules,
    patient,
    policies,
    policy_tests,
    schemes,
)

BEFORE = """
version = 1
name = "agents"
[[git]]
id = "app"
repos = ["corp:acme/app"]
fetch = true
push = { branches = ["agent/**"] }
[[git]]
id = "no-secrets"
effect = "deny"
repos = ["corp:acme/*-secrets"]
[[egress]]
id = "mirror"
hosts = ["mirror.example"]
"""


def lines(after: str) -> list[str]:
    found = compare(parse_policy(BEFORE), parse_policy(after))
    return [f"{each.direction}: {each.where}: {each.what}" for each in found]


def test_the_same_policy_has_no_difference() -> None:
    assert lines(BEFORE) == []


def test_more_and_less_are_told_apart_key_by_key() -> None:
    after = BEFORE.replace('["agent/**"]', '["bot/*"], delete = true')
    assert lines(after + '[session]\nttl = "1h"\n') == [
        "narrower: session.ttl: 8h is now 1h",
        "wider: git rule app: push.branches: bot/* added",
        "narrower: git rule app: push.branches: agent/** removed",
        "wider: git rule app: push.delete is now true",
    ]


NUMBERS = [
    *(("session", key.name) for key in SESSION),
    *(("limits", key.name) for key in LIMITS),
]


@pytest.mark.parametrize(("table", "key"), NUMBERS)
def test_a_limit_is_told_as_the_document_spells_it(table: str, key: str) -> None:
    before = parse_policy(BEFORE)
    part = getattr(before, table)
    after = evolve(before, **{table: evolve(part, **{key: getattr(part, key) * 2})})
    old, new = (spelled(policy, table)[key] for policy in (before, after))
    (found,) = compare(before, after)
    assert found == Difference("wider", f"{table}.{key}", f"{old} is now {new}")
    assert compare(after, before)[0].direction == "narrower"


def spelled(policy: Policy, table: str) -> dict[str, object]:
    """Also the keys that are left out where they say nothing."""
    keys, part = {"session": SESSION, "limits": LIMITS}[table], getattr(policy, table)
    return {key.name: key.write(getattr(part, key.name)) for key in keys}


@pytest.mark.parametrize(
    ("table", "kind"), [("session", Session), ("limits", Limits)], ids=["session", "limits"]
)
def test_every_limit_is_a_key_of_the_document(table: str, kind: type[AttrsInstance]) -> None:
    assert [key for name, key in NUMBERS if name == table] == [key.name for key in fields(kind)]


def test_a_rule_that_denies_works_the_other_way_round() -> None:
    after = BEFORE.replace('["corp:acme/*-secrets"]', '["corp:acme/x"]')
    assert lines(after) == [
        "narrower: git rule no-secrets (deny): repos: corp:acme/x added",
        "wider: git rule no-secrets (deny): repos: corp:acme/*-secrets removed",
    ]


def test_rules_that_come_and_go_are_told_whole() -> None:
    after = BEFORE.replace('id = "app"', 'id = "web"').replace("mirror.example", "cdn.example")
    assert lines(after) == [
        "narrower: git rule app: gone: corp:acme/app: fetch; push agent/**, as helper",
        "wider: git rule web: new: corp:acme/app: fetch; push agent/**, as helper",
        "wider: egress rule mirror: hosts: cdn.example added",
        "narrower: egress rule mirror: hosts: mirror.example removed",
    ]


def test_a_whole_denial_that_becomes_a_part_is_not_called_narrower() -> None:
    after = BEFORE.replace('effect = "deny"', 'effect = "deny"\nfetch = true')
    (line,) = lines(after)
    assert line.startswith(
        "other: git rule no-secrets (deny): was: corp:acme/*-secrets: everything"
    )


@st.composite
def changed(draw: st.DrawFn) -> tuple[Policy, Policy]:
    """A policy and one that differs from it in a few rules, so that most of it is shared."""
    before = draw(policies())
    after = []
    for rule in before.git:
        other = draw(git_rules)
        kept = {key: getattr(other, key) for key in draw(st.sets(st.sampled_from(_KEYS)))}
        after.append(evolve(rule, **kept))
    kept_rules = [rule for rule in after if draw(st.integers(0, 3))]
    return before, evolve(before, git=tuple(kept_rules))


_KEYS = ("effect", "repos", "fetch", "push", "who")


@patient
@given(changed(), st.lists(policy_tests(), min_size=8, max_size=8))
def test_without_a_wider_place_nothing_new_is_allowed(
    pair: tuple[Policy, Policy], asked: list[GitTest]
) -> None:
    before, after = pair
    wider = any(each.direction != "narrower" for each in compare(before, after))
    for wish in asked:
        for servers in (GitServers(lambda name: False, ()), GitServers(lambda name: True, ())):
            if isinstance(decide(after, wish, servers), Allow) and not wider:
                assert isinstance(decide(before, wish, servers), Allow)


@patient
@given(policies(), policies(), st.lists(st.tuples(destinations, schemes), min_size=8, max_size=8))
def test_without_a_wider_place_no_new_host_is_reached(
    before: Policy, other: Policy, asked: list[tuple[Destination, Scheme]]
) -> None:
    after = evolve(before, egress=other.egress)
    wider = any(each.direction != "narrower" for each in compare(before, after))
    for to, scheme in asked:
        if isinstance(decide_egress(after, to, scheme, ()), EgressAllow) and not wider:
            assert isinstance(decide_egress(before, to, scheme, ()), EgressAllow)


def test_a_denial_of_every_port_that_becomes_one_of_some_is_not_called_narrower() -> None:
    deny = '[[egress]]\nid = "no"\neffect = "deny"\nhosts = ["x.example"]\n'
    found = compare(parse_policy(BEFORE + deny), parse_policy(BEFORE + deny + "ports = [443]"))
    assert [each.direction for each in found] == ["other"]


@patient
@given(policies())
def test_nothing_differs_from_itself(policy: Policy) -> None:
    assert compare(policy, policy) == []
