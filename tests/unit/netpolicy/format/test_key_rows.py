"""Every field of a rule has a row in the table of keys: so it is read, written and compared."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import AttrsInstance, evolve, field, fields, frozen, make_class

from netpolicy.egress_rules.tables import HTTP_KEYS, keys_of
from netpolicy.format.key_rows import (
    EFFECTS,
    INDEX,
    LIMITS,
    SESSION,
    WRITTEN,
    Key,
    compare_keys,
    listed,
    read_keys,
    size,
    write_keys,
)
from netpolicy.format.reading import open_table
from netpolicy.git_rules.tables import KEYS, PUSH_KEYS
from netpolicy.policy import EgressRule, GitRule, Limits, PackageIndexes, PushRule, Session

TABLES: list[tuple[type[AttrsInstance], tuple[Key, ...]]] = [
    (Session, SESSION),
    (Limits, LIMITS),
    (GitRule, KEYS),
    (PushRule, PUSH_KEYS),
    (EgressRule, HTTP_KEYS),
    (PackageIndexes, INDEX),
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


RECORDED: list[Any] = json.loads(
    (Path(__file__).parents[3] / "vectors" / "policies.json").read_text()
)


def of_0_2_0(kind: type[AttrsInstance]) -> set[str]:
    """The keys that the policies recorded then have in such a table."""
    mappings = [row["mapping"] for row in RECORDED]
    rules = [rule for mapping in mappings for rule in mapping["git"]]
    tables = {
        Session: [mapping["session"] for mapping in mappings],
        Limits: [mapping["limits"] for mapping in mappings],
        GitRule: rules,
        PushRule: [rule["push"] for rule in rules if "push" in rule],
        EgressRule: [rule for mapping in mappings for rule in mapping["egress"]],
    }
    return {key for each in tables.get(kind, []) for key in each} - NESTED


def against_the_rule(keys: tuple[Key, ...], recorded: set[str]) -> set[str]:
    """Keys that would change digests: of 0.2.0 and not always written, or later and written."""
    return {key.name for key in keys if (key.absent is WRITTEN) != (key.name in recorded)}


@pytest.mark.parametrize(("kind", "keys"), TABLES)
def test_a_key_that_came_after_0_2_0_says_what_policies_without_it_mean(
    kind: type[AttrsInstance], keys: tuple[Key, ...]
) -> None:
    assert against_the_rule(keys, of_0_2_0(kind)) == set()


def test_a_key_that_changes_digests_is_found() -> None:
    planted = size("planted")
    assert against_the_rule((*LIMITS, planted), of_0_2_0(Limits)) == {"planted"}
    assert against_the_rule((*LIMITS, evolve(planted, absent=1)), of_0_2_0(Limits)) == set()
    assert against_the_rule((evolve(LIMITS[0], absent=1),), of_0_2_0(Limits)) == {LIMITS[0].name}


@frozen
class LaterLimits(Limits):
    file_max: int = 7  # not what a policy without the key means
    refused: tuple[str, ...] = ()


LATER = (*LIMITS, evolve(size("file_max"), absent=1024), evolve(listed("refused", str), absent=()))


def read_later(mapping: dict[str, Any]) -> LaterLimits:
    defaults = {each.name: each.default for each in fields(LaterLimits)}
    table = open_table(mapping)
    values = read_keys(table, LATER, defaults)
    table.close()
    return LaterLimits(**values)


def test_a_later_key_is_left_out_where_it_is_what_its_absence_means() -> None:
    before = write_keys(LIMITS, Limits())
    same = read_later(before)
    assert (same.file_max, same.refused) == (1024, ())
    assert write_keys(LATER, same) == before
    changed = evolve(same, file_max=2048, refused=("x",))
    written = write_keys(LATER, changed)
    assert written == before | {"file_max": "2KiB", "refused": ["x"]}
    assert read_later(written) == changed
    assert [each.what for each in compare_keys(LATER, same, changed)] == [
        "file_max: 1KiB is now 2KiB",
        "refused: x added",
    ]
