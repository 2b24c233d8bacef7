"""A policy made from answers allows what was named, and its tests can tell."""

import pytest

from hostctl.policies.new_policy import Answers, policy_text
from netpolicy.expectations import run_tests
from netpolicy.format.document import parse_policy
from netpolicy.policy import Tier


def answers(repos: list[str], push: list[str], agent: bool) -> Answers:
    return Answers("p", repos, push, agent, 3600)


@pytest.mark.parametrize("agent", [False, True])
@pytest.mark.parametrize("push", [[], ["agent/**"], ["main"], ["main", "master"], ["**"], ["m*"]])
@pytest.mark.parametrize("repos", [["corp:acme/app"], ["corp:acme/web-*", "corp:docs/**"]])
def test_every_combination_passes_its_own_tests(
    repos: list[str], push: list[str], agent: bool
) -> None:
    policy = parse_policy(policy_text(answers(repos, push, agent)))
    assert policy.tests and not run_tests(policy)
    assert policy.session.ttl == 3600
    (rule,) = policy.git
    assert [pattern.text for pattern in rule.repos] == repos
    assert (Tier.UNTRUSTED in rule.who) == agent
    assert (rule.push is not None) == bool(push)


def test_the_tests_say_that_main_is_not_to_be_pushed() -> None:
    text = policy_text(answers(["corp:acme/app"], ["agent/**"], False))
    wider = parse_policy(text.replace('"agent/**"', '"agent/**", "main"'))
    assert [failure.index for failure in run_tests(wider)] == [1]
