"""The most that a host may grant."""

from typing import Any, get_type_hints

import pytest
from attrs import evolve, fields

from netpolicy.ceiling import allowed_kinds, exceeded, shortened
from netpolicy.egress_rules.record import EGRESS
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.format.writing import policy_to_mapping
from netpolicy.patterns.matchers import HostPattern, RepoPattern
from netpolicy.policy import Ceiling, EgressBound, GitBound, Policy
from netpolicy.rule_kind import Kind
from netpolicy.rule_kinds import KINDS

POLICY = """
version = 1
name = "p"
[session]
ttl = "1h"
max_ttl = "4h"
[[git]]
repos = ["up:acme/app", "up:acme/web-*", "lab:team/**"]
fetch = true
push = { branches = ["agent/**"] }
[[git]]
id = "no"
effect = "deny"
repos = ["elsewhere:x/**"]
"""
ACME = RepoPattern("up", "acme/*")
TEAM = RepoPattern("lab", "team/**")
UP = RepoPattern("up", "**")


def repos(*patterns: RepoPattern) -> Ceiling:
    return Ceiling(GitBound(patterns))


@pytest.mark.parametrize(
    ("ceiling", "above"),
    [
        (Ceiling(), "[[git]] rules"),
        (Ceiling(egress=EgressBound()), "[[git]] rules"),
        (Ceiling(GitBound()), None),
        (repos(ACME, TEAM), None),
        (repos(UP, RepoPattern("lab", "**")), None),
        (repos(ACME), "lab:team/**"),
        (repos(RepoPattern("up", "acme/app"), TEAM), "up:acme/web-*"),
        (repos(RepoPattern("other", "**")), "up:acme/app"),
        (repos(ACME, RepoPattern("lab", "team/*")), "lab:team/**"),
        (Ceiling(GitBound((ACME, TEAM), push=False)), "pushing"),
        (Ceiling(GitBound(), ttl=60), None),
    ],
)
def test_a_policy_is_within_its_hosts_ceiling_or_is_told_what_is_not(
    ceiling: Ceiling, above: str | None
) -> None:
    assert exceeded(parse_policy(POLICY), ceiling) == above


@pytest.mark.parametrize(
    "most, ttl, max_ttl",
    [(None, 1, 4), (5 * 3600, 1, 4), (4 * 3600, 1, 4), (2 * 3600, 1, 2), (1800, 0.5, 0.5)],
)
def test_sessions_end_no_later_than_the_ceiling_says(
    most: int | None, ttl: float, max_ttl: float
) -> None:
    policy = parse_policy(POLICY)
    shorter = shortened(policy, Ceiling(GitBound(), ttl=most))
    assert (shorter.session.ttl, shorter.session.max_ttl) == (ttl * 3600, max_ttl * 3600)
    assert evolve(shorter, session=policy.session) == policy
    assert policy_from_mapping(policy_to_mapping(shorter)) == shorter


HOSTS = """
version = 1
name = "p"
[[egress]]
hosts = ["mirror.example.com", "*.cdn.example.com"]
[[egress]]
effect = "deny"
hosts = ["elsewhere.example"]
"""
PRIVATE = HOSTS.replace("[[egress]]", "[[egress]]\nallow_private = true", 1)


def hosts(*patterns: str) -> Ceiling:
    return Ceiling(egress=EgressBound(tuple(map(HostPattern, patterns))))


@pytest.mark.parametrize(
    ("policy", "ceiling", "above"),
    [
        (HOSTS, Ceiling(GitBound()), "[[egress]] rules"),
        (HOSTS, Ceiling(egress=EgressBound()), None),
        (HOSTS, hosts("**.example.com"), None),
        (HOSTS, hosts("mirror.example.com", "*.cdn.example.com"), None),
        (HOSTS, hosts("mirror.example.com", "a.cdn.example.com"), "*.cdn.example.com"),
        (HOSTS, hosts("*.example.com"), "*.cdn.example.com"),
        (HOSTS, hosts("*.cdn.example.com"), "mirror.example.com"),
        (
            HOSTS.replace("*.cdn", "**.cdn"),
            hosts("*.example.com", "*.cdn.example.com"),
            "**.cdn.example.com",
        ),
        (PRIVATE, Ceiling(egress=EgressBound()), None),
        (
            PRIVATE,
            Ceiling(egress=EgressBound(private=False)),
            "private addresses of mirror.example.com",
        ),
    ],
)
def test_rules_about_other_hosts_are_bounded_too(
    policy: str, ceiling: Ceiling, above: str | None
) -> None:
    assert exceeded(parse_policy(policy), ceiling) == above


# For each kind of rule: a policy with one rule that allows something, and a bound that forbids it.
A_RULE: dict[str, tuple[str, Any]] = {
    "git": (POLICY, GitBound((RepoPattern("up", "other"),))),
    "egress": (HOSTS, EgressBound((HostPattern("other.example"),))),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_of_rule_has_a_bound_and_without_one_allows_nothing(
    kind: Kind[Any, Any],
) -> None:
    text, forbids = A_RULE[kind.name]
    policy = parse_policy(text)
    assert kind.exceeded(policy, Ceiling()) == f"[[{kind.name}]] rules"
    assert kind.exceeded(policy, Ceiling(**{kind.name: kind.bound()})) is None
    assert kind.exceeded(policy, Ceiling(**{kind.name: forbids})) is not None
    assert exceeded(policy, Ceiling(**{kind.name: forbids})) is not None


def without_a_bound(ceiling: type[Any], kinds: tuple[Kind[Any, Any], ...]) -> set[str]:
    hints = get_type_hints(ceiling)
    return {kind.name for kind in kinds if hints.get(kind.name) != kind.bound | None}


def test_a_kind_of_rule_without_a_bound_is_found() -> None:
    assert without_a_bound(Ceiling, KINDS) == set()
    assert {each.name for each in fields(Ceiling)} == {kind.name for kind in KINDS} | {"ttl"}
    assert {each.name: each.default for each in fields(Ceiling)} == dict.fromkeys(
        [*(kind.name for kind in KINDS), "ttl"]
    )

    class Later:
        git: GitBound | None
        service: GitBound | None

    assert without_a_bound(Later, KINDS) == {"egress"}


def test_an_old_enrolment_means_the_kinds_of_its_time() -> None:
    later = (*KINDS, evolve(EGRESS, name="service", always_written=False))
    assert allowed_kinds(None, later) == ("git", "egress")
    assert allowed_kinds("any", later) == ("git", "egress", "service")
    assert allowed_kinds(["service", "git"], later) == ("git", "service")
    assert allowed_kinds("git", later) == allowed_kinds(7, later) == ()


def test_rules_that_deny_are_above_no_ceiling() -> None:
    denies = 'version = 1\nname = "p"\n'
    denies += '[[git]]\neffect = "deny"\nrepos = ["up:x"]\n'
    denies += '[[egress]]\neffect = "deny"\nhosts = ["x.example"]\n'
    policy: Policy = parse_policy(denies)
    assert exceeded(policy, Ceiling()) is None
