"""Policies recorded with release 0.2.0: what is signed, and its digest, are the same bytes today.

A running sandbox's grant, its record and its nftables rules carry the digest.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields, frozen

from netpolicy.egress_rules.record import EGRESS
from netpolicy.format.document import (
    parse_policy,
    policy_digest,
    policy_from_mapping,
    policy_to_mapping,
)
from netpolicy.policy import EgressRule, Policy
from netpolicy.rule_kinds import KINDS

ROWS = json.loads((Path(__file__).parents[2] / "vectors" / "policies.json").read_text())
TEXTS = [row for row in ROWS if "text" in row]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["digest"][:8])
def test_the_mapping_and_its_digest_are_the_recorded_bytes(row: dict[str, str]) -> None:
    policy = policy_from_mapping(json.loads(json.dumps(row["mapping"])))
    assert json.dumps(policy_to_mapping(policy)) == json.dumps(row["mapping"])
    assert policy_digest(policy) == row["digest"]


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row["digest"][:8])
def test_a_file_that_leaves_defaults_out_is_the_recorded_mapping(row: dict[str, str]) -> None:
    policy = parse_policy(row["text"])
    assert json.dumps(policy_to_mapping(policy)) == json.dumps(row["mapping"])
    assert policy_digest(policy) == row["digest"]


@frozen
class LaterPolicy(Policy):
    """With a kind of rule that 0.2.0 did not have."""

    service: tuple[EgressRule, ...] = ()


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row["digest"][:8])
def test_a_later_kind_of_rule_is_left_out_where_there_is_no_such_rule(row: dict[str, Any]) -> None:
    policy, kinds = (
        parse_policy(row["text"]),
        (*KINDS, evolve(EGRESS, name="service", always_written=False)),
    )
    later = LaterPolicy(**{each.name: getattr(policy, each.name) for each in fields(Policy)})
    assert json.dumps(policy_to_mapping(later, kinds)) == json.dumps(row["mapping"])
    rule = EgressRule("one", "deny", (), ())
    used = policy_to_mapping(evolve(later, service=(rule,)), kinds)
    assert used == row["mapping"] | {"service": [EGRESS.write(rule)]}
