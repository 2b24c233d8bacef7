"""What the last releases make of policies that the present code has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from netpolicy.format.document import policy_digest, policy_from_mapping, policy_to_mapping
from tests.releases import Release, releases
from tests.upgrade import older

pytestmark = pytest.mark.history

ROWS: list[Any] = json.loads((Path(__file__).parents[1] / "vectors" / "policies.json").read_text())
# In 0.2.0 and before, the modules had other names.
_READ = """
import json, sys
from netpolicy.document import PolicyError, policy_digest, policy_from_mapping
for mapping in json.load(sys.stdin):
    try:
        print(policy_digest(policy_from_mapping(mapping)))
    except PolicyError as error:
        print(error)
"""
LATER: list[tuple[dict[str, object], str]] = [
    ({"limits": {"later": 1}}, "limits.later: unknown key"),
    ({"later": [{"id": "one"}]}, "later: unknown key"),
]


@pytest.mark.parametrize("release", releases()[-1:], ids=lambda release: release.version)
def test_the_last_release_reads_the_same_digest_and_names_the_key_that_it_does_not_know(
    release: Release,
) -> None:
    policies = [policy_from_mapping(row["mapping"]) for row in ROWS]
    mappings = [policy_to_mapping(policy) for policy in policies]
    later = [mappings[0] | added for added, _ in LATER]
    with older.installed(release) as code:
        said = code.python("-c", _READ, stdin=json.dumps(mappings + later))
    lines = said.expect_success("reading the policies").splitlines()
    assert lines == [policy_digest(each) for each in policies] + [text for _, text in LATER]
