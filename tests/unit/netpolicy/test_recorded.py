"""Policies recorded with release 0.2.0: what is signed, and its digest, are the same bytes today.

A running sandbox's grant, its record and its nftables rules carry the digest.
"""

import json
from pathlib import Path

import pytest

from netpolicy.format.document import (
    parse_policy,
    policy_digest,
    policy_from_mapping,
    policy_to_mapping,
)

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
