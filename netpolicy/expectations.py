"""Runs the tests that a policy carries."""

from collections.abc import Collection

from attrs import frozen

from netpolicy.decision import Allow
from netpolicy.policy import Policy
from netpolicy.rule_kind import GitServers, Test, Verdict
from netpolicy.rule_kinds import kind_of_test


@frozen
class Failure:
    """A test of the policy that does not hold; `index` is its place, from 0."""

    index: int
    what: str


def run_tests(policy: Policy, git_hosts: Collection[str] = ()) -> list[Failure]:
    """A test must hold whether an upstream ignores case or not. `git_hosts` are the git servers'
    names."""
    both = (GitServers(lambda name: False, git_hosts), GitServers(lambda name: True, git_hosts))
    failures = []
    for index, test in enumerate(policy.tests):
        decide = kind_of_test(test).decide
        verdicts = [decide(policy, test, servers) for servers in both]
        wrong = [each for each in verdicts if isinstance(each, Allow) != (test.expect == "allow")]
        if wrong:
            failures.append(Failure(index, _failed(test, wrong[0])))
    return failures


def _failed(test: Test, verdict: Verdict) -> str:
    asked = kind_of_test(test).test_words(test)
    if isinstance(verdict, Allow):
        return f"{asked} is allowed by rule {verdict.rule}, expected deny"
    return f"{asked} is denied ({verdict.code}), expected allow"
