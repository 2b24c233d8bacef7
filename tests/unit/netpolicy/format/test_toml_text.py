from hypothesis import given

from netpolicy.format.document import parse_policy
from netpolicy.format.writing import policy_to_toml
from netpolicy.policy import Policy
from tests.fakes.policies import patient, policies


@patient
@given(policies())
def test_what_is_written_is_read_as_the_same_policy(policy: Policy) -> None:
    assert parse_policy(policy_to_toml(policy)) == policy


def test_notes_are_comments_above_their_rule() -> None:
    text = 'version = 1\nname = "p"\n[[egress]]\nid = "m"\nhosts = ["mirror.example"]\n'
    shown = policy_to_toml(parse_policy(text), {"m": ["from /etc/mirrors"]})
    assert "# from /etc/mirrors\n[[egress]]\nid = " in shown
