import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.codes import CODES
from netpolicy.expectations import Failure, run_tests
from netpolicy.format.document import parse_policy
from netpolicy.git_rules.refusal import allowed_lines, refusal_lines
from netpolicy.policy import Policy, Tier
from tests.fakes.policies import patient, policies, tiers

POLICY = parse_policy("""
version = 1
name = "agents"
[[git]]
id = "app"
repos = ["github:acme/app", "github:acme/web-*"]
fetch = true
push = { branches = ["agent/**"], tags = ["v*"], refs = ["refs/notes/*"] }
who = ["helper", "untrusted"]
[[git]]
id = "tools"
repos = ["github:acme/tools"]
fetch = true
[[git]]
id = "no-secrets"
effect = "deny"
repos = ["github:acme/*-secrets"]
""")
REQUEST = "00112233aabbccdd"


def test_a_refusal_says_what_is_allowed_and_how_to_find_the_reason() -> None:
    assert refusal_lines("G201", REQUEST, POLICY, Tier.UNTRUSTED) == [
        "gitmoat: pushing to this ref is not allowed (G201)",
        "allowed: github:acme/app, github:acme/web-*: fetch; push agent/**, tag v*, refs/notes/*",
        "request id: 00112233aabbccdd",
    ]


def test_a_rule_with_other_changes_than_usual_names_them() -> None:
    rule = 'push = { branches = ["x"], update = false, delete = true }'
    policy = parse_policy(f'version = 1\nname = "p"\n[[git]]\nrepos = ["corp:a/b"]\n{rule}')
    assert allowed_lines(policy, Tier.HELPER) == ["allowed: corp:a/b: push x (create/delete)"]


def test_each_tier_is_told_its_own_rules_and_no_deny_rule() -> None:
    helper = "\n".join(allowed_lines(POLICY, Tier.HELPER))
    untrusted = "\n".join(allowed_lines(POLICY, Tier.UNTRUSTED))
    assert "github:acme/tools: fetch" in helper
    assert "tools" not in untrusted
    assert "secrets" not in helper + untrusted


def test_a_command_without_git_is_told_so() -> None:
    policy = parse_policy(
        'version = 1\nname = "p"\n[[git]]\nrepos = ["github:acme/app"]\nfetch = true'
    )
    (line,) = allowed_lines(policy, Tier.UNTRUSTED)
    assert line.startswith("allowed: no git network for this process")


def test_many_rules_are_summed_up() -> None:
    rule = '[[git]]\nrepos = ["github:acme/app"]\nfetch = true\n'
    lines = allowed_lines(parse_policy('version = 1\nname = "p"\n' + rule * 9), Tier.HELPER)
    assert len(lines) == 5
    assert lines[-1] == "allowed: and 5 more rules"


def test_only_refusals_of_scope_recite_the_scope() -> None:
    assert len(refusal_lines("B101", REQUEST, POLICY, Tier.HELPER)) == 2
    assert len(refusal_lines("S101", REQUEST, POLICY, Tier.HELPER)) == 2


@patient
@given(policies(), tiers, st.sampled_from(sorted(CODES)), st.text(max_size=40))
def test_refusals_are_short_plain_ascii_lines(
    policy: Policy, tier: Tier, code: str, request_id: str
) -> None:
    lines = refusal_lines(code, request_id, policy, tier)
    assert 2 <= len(lines) <= 7
    assert code in lines[0]
    assert all(re.fullmatch(r"[ -~]{1,100}", line) for line in lines)


TESTED = """
version = 1
name = "p"
[[git]]
id = "app"
repos = ["github:acme/app"]
fetch = true
push = { branches = ["agent/**"] }
"""


@pytest.mark.parametrize(
    "test",
    [
        'expect = "allow"\nfetch = "github:acme/app"',
        'expect = "allow"\npush = "github:acme/app refs/heads/agent/x"',
        'expect = "allow"\npush = "github:acme/app refs/heads/agent/x"\nchange = "create"',
        'expect = "deny"\npush = "github:acme/app refs/heads/agent/x"\nchange = "delete"',
        'expect = "deny"\npush = "github:acme/app refs/heads/main"',
        'expect = "deny"\nfetch = "github:acme/other"',
        'expect = "deny"\nfetch = "github:acme/app"\nwho = "untrusted"',
    ],
)
def test_expectations_that_hold(test: str) -> None:
    assert run_tests(parse_policy(f"{TESTED}[[test]]\n{test}")) == []


def test_expectations_that_fail_say_what_was_decided() -> None:
    policy = parse_policy(
        f"""{TESTED}
[[test]]
expect = "deny"
fetch = "github:acme/app"
[[test]]
expect = "allow"
push = "github:acme/app refs/heads/main"
who = "untrusted"
"""
    )
    assert run_tests(policy) == [
        Failure(0, "helper: fetch of github:acme/app is allowed by rule app, expected deny"),
        Failure(
            1,
            "untrusted: update refs/heads/main of github:acme/app is denied (G101), expected allow",
        ),
    ]


def test_an_expectation_that_depends_on_case_must_hold_both_ways() -> None:
    policy = parse_policy(f'{TESTED}[[test]]\nexpect = "deny"\nfetch = "github:Acme/App"')
    assert len(run_tests(policy)) == 1
    policy = parse_policy(f'{TESTED}[[test]]\nexpect = "allow"\nfetch = "github:Acme/App"')
    assert len(run_tests(policy)) == 1
