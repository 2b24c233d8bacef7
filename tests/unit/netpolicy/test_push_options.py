"""Push options reach an upstream only where a rule says so for every ref of the push."""

import pytest

from gitmoat.wire.git.receivepack import Change, Command, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.decision import Allow, PushDenied, decide_push
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.format.writing import policy_to_mapping
from netpolicy.git_rules.refusal import allowed_lines
from netpolicy.policy import Tier
from tests.fakes import policies

TEXT = """
version = 1
name = "p"
[[git]]
id = "plain"
repos = ["up:acme/app"]
push = { branches = ["agent/**"] }
[[git]]
id = "optional"
repos = ["up:acme/app"]
push = { branches = ["agent/ci/**"], options = true }
[[git]]
id = "never"
effect = "deny"
repos = ["up:acme/app"]
push = { branches = ["agent/ci/no"] }
"""
POLICY = parse_policy(TEXT)


def push(*refs: str, options: bool) -> Allow | PushDenied:
    objects = policies.OBJECTS[Change.CREATE]
    commands = [Command(*objects, RefName(f"refs/heads/{ref}")) for ref in refs]
    where = (POLICY, "up", RepositoryPath("acme/app"), Tier.HELPER, False)
    return decide_push(*where, commands, options)


def test_without_options_nothing_changes() -> None:
    assert push("agent/a", options=False) == Allow("plain")
    assert push("agent/ci/a", options=False) == Allow("plain")


def test_with_options_a_rule_must_allow_them() -> None:
    assert push("agent/ci/a", options=True) == Allow("optional")
    denied = push("agent/a", options=True)
    assert isinstance(denied, PushDenied) and denied.code == "G204"


def test_with_options_every_ref_needs_such_a_rule() -> None:
    denied = push("agent/ci/a", "agent/a", options=True)
    assert isinstance(denied, PushDenied)
    assert denied.reasons["refs/heads/agent/ci/a"] == "refused with the rest"


def test_a_ref_that_is_denied_is_denied_for_that_reason() -> None:
    for options in (False, True):
        for ref in ("main", "agent/ci/no"):
            denied = push(ref, options=options)
            assert isinstance(denied, PushDenied) and denied.code == "G201"


def test_the_key_survives_the_grant_and_is_told() -> None:
    assert policy_from_mapping(policy_to_mapping(POLICY)) == POLICY
    assert any("agent/ci/** with options" in line for line in allowed_lines(POLICY, Tier.HELPER))


def test_the_key_has_no_meaning_in_a_deny_rule() -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(TEXT.replace('["agent/ci/no"]', '["agent/ci/no"], options = true'))
    assert error.value.path == "git[2].push.options"
