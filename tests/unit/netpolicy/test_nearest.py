"""The nearest change says what to do, and doing it is enough."""

import pytest
from hypothesis import given

from netpolicy.decision import Allow
from netpolicy.format.document import parse_policy
from netpolicy.git_rules.asking import decide, nearest
from netpolicy.policy import GitTest, Policy
from netpolicy.rule_kind import GitServers
from tests.fakes.policies import edited, patient, policies, policy_tests

POLICY = parse_policy("""
version = 1
name = "agents"
[[git]]
id = "app"
repos = ["corp:acme/app"]
fetch = true
push = { branches = ["agent/**"] }
[[git]]
id = "drop-box"
repos = ["corp:acme/drop"]
push = { branches = ["in/*"], update = false }
[[git]]
id = "no-secrets"
effect = "deny"
repos = ["corp:acme/*-secrets"]
[[git]]
id = "read"
repos = ["corp:docs/**"]
fetch = true
[[git]]
id = "no-release"
effect = "deny"
repos = ["corp:acme/app"]
push = { branches = ["release"] }
""")


STRICT = GitServers(lambda name: False, ())
FOLDING = GitServers(lambda name: True, ())


def wish(line: str) -> GitTest:
    text = f'version = 1\nname = "x"\n[[test]]\nexpect = "allow"\n{line}'
    (test,) = parse_policy(text).tests
    assert isinstance(test, GitTest)
    return test


def words(line: str) -> tuple[str, ...]:
    return tuple(each.words for each in nearest(POLICY, wish(line), STRICT))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ('push = "corp:acme/app refs/heads/main"', ('in rule app: add "main" to push.branches',)),
        ('push = "corp:acme/app refs/tags/v1"', ('in rule app: add "v1" to push.tags',)),
        ('push = "corp:acme/app refs/x/y"', ('in rule app: add "refs/x/y" to push.refs',)),
        ('fetch = "corp:acme/app"\nwho = "untrusted"', ('in rule app: add "untrusted" to who',)),
        ('fetch = "corp:acme/drop"', ("in rule drop-box: set fetch = true",)),
        (
            'push = "corp:acme/drop refs/heads/in/a"',
            ("in rule drop-box: set push.update = true",),
        ),
        (
            'push = "corp:acme/app refs/heads/agent/a"\nchange = "delete"',
            ("in rule app: set push.delete = true",),
        ),
        (
            'push = "corp:docs/a refs/heads/main"',
            ('in rule read: add push = { branches = ["main"] }',),
        ),
        (
            'fetch = "corp:other/x"',
            ('add a rule: [[git]] repos = ["corp:other/x"], fetch = true, who = ["helper"]',),
        ),
        (
            'push = "corp:acme/app refs/heads/release"\nwho = "untrusted"',
            (
                "rule no-release denies it, and deny beats allow: change that rule",
                'in rule app: add "untrusted" to who',
                'in rule app: add "release" to push.branches',
            ),
        ),
    ],
)
def test_it_names_the_rule_and_the_key(asked: str, said: tuple[str, ...]) -> None:
    assert words(asked) == said


def test_what_is_allowed_needs_no_change() -> None:
    assert nearest(POLICY, wish('fetch = "corp:acme/app"'), STRICT) == ()


@patient
@given(policies(), policy_tests())
def test_the_change_can_be_written_down_and_makes_it_allowed(
    policy: Policy, asked: GitTest
) -> None:
    for servers in (STRICT, FOLDING):
        missing = nearest(policy, asked, servers)
        assert bool(missing) != isinstance(decide(policy, asked, servers), Allow)
        assert isinstance(decide(edited(policy, missing), asked, servers), Allow)
