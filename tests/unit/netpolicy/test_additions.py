"""Rules are added at the end of a policy file; what stood there stays."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.additions import with_rules
from netpolicy.document import parse_policy
from netpolicy.matchers import HostPattern
from netpolicy.policy import EgressRule, Policy
from netpolicy.reading import PolicyError
from netpolicy.toml_text import policy_to_toml
from tests.fakes.policies import egress_rules, patient, policies

RULE = EgressRule("mirror", "allow", (HostPattern("mirror.example"),), (443,))
TEXT = (
    '# mine\nversion = 1\nname = "p"  # kept\n\n[[egress]]\nid = "mirror"\nhosts = ["a.example"]\n'
)


def test_the_text_stays_and_the_new_rule_gets_an_id_of_its_own() -> None:
    after = with_rules(TEXT, "p", [RULE], {"mirror": ["from /etc/mirrors"]})
    assert after.startswith(TEXT)
    assert '# from /etc/mirrors\n[[egress]]\nid = "mirror-2"\n' in after
    assert [rule.id for rule in parse_policy(after).egress] == ["mirror", "mirror-2"]


def test_what_stands_there_already_is_not_added_again() -> None:
    once = with_rules(TEXT, "p", [RULE], {})
    assert with_rules(once, "p", [RULE], {}) == once


def test_a_new_file_is_a_policy_of_its_name() -> None:
    policy = parse_policy(with_rules("", "learned", [RULE], {}))
    assert (policy.name, policy.egress) == ("learned", (RULE,))


def test_rules_written_as_one_list_cannot_be_added_to() -> None:
    inline = 'version = 1\nname = "p"\negress = [{ hosts = ["a.example"] }]\n'
    with pytest.raises(PolicyError):
        with_rules(inline, "p", [RULE], {})


def test_a_file_that_is_no_policy_is_refused() -> None:
    with pytest.raises(PolicyError):
        with_rules("nonsense", "p", [RULE], {})


@patient
@given(policies(), st.lists(egress_rules, max_size=3))
def test_any_policy_can_be_added_to(policy: Policy, rules: list[EgressRule]) -> None:
    named = [evolve(rule, id="e0") for rule in rules]
    after = parse_policy(with_rules(policy_to_toml(policy), "p", named, {}))
    assert after.git == policy.git
    assert after.egress[: len(policy.egress)] == policy.egress
