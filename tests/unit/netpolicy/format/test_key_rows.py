"""Every field of a rule has a row in the table of keys: so it is read, written and compared."""

import pytest
from attrs import AttrsInstance, field, fields, make_class

from netpolicy.egress_rules.tables import HTTP_KEYS, keys_of
from netpolicy.format.key_rows import EFFECTS, LIMITS, SESSION, Key
from netpolicy.git_rules.tables import KEYS, PUSH_KEYS
from netpolicy.policy import EgressRule, GitRule, Limits, PushRule, Session

TABLES: list[tuple[type[AttrsInstance], tuple[Key, ...]]] = [
    (Session, SESSION),
    (Limits, LIMITS),
    (GitRule, KEYS),
    (PushRule, PUSH_KEYS),
    (EgressRule, HTTP_KEYS),
]
NESTED = {"push"}  # a table of its own


def without_a_row(kind: type[AttrsInstance], keys: tuple[Key, ...]) -> set[str]:
    return {each.name for each in fields(kind)} - {key.name for key in keys} - NESTED


@pytest.mark.parametrize(("kind", "keys"), TABLES)
def test_every_field_has_one_row(kind: type[AttrsInstance], keys: tuple[Key, ...]) -> None:
    assert without_a_row(kind, keys) == set()
    assert len({key.name for key in keys}) == len(keys)


def test_a_field_that_has_no_row_is_found() -> None:
    planted = make_class("Planted", {"planted": field(default=0)}, bases=(PushRule,), frozen=True)
    assert without_a_row(planted, PUSH_KEYS) == {"planted"}


def test_a_key_stands_only_in_rules_where_it_has_a_meaning() -> None:
    deny, tls = ({key.name for key in keys_of(effect, "tls")} for effect in reversed(EFFECTS))
    assert {key.name for key in HTTP_KEYS} - tls == {"methods"}
    assert tls - deny == {"scheme", "allow_shared", "allow_private"}
