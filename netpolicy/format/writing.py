"""A Policy as the mapping that a signed grant carries, and as the text of a policy file: one
spelling per policy, made of text, numbers, flags, lists and dicts.

Defaults are written out, but not those of keys and kinds of rules that came after 0.2.0.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from netpolicy.format.key_rows import INDEX, LIMITS, SESSION, write_keys
from netpolicy.format.toml_text import assignments, table_lines
from netpolicy.policy import Policy
from netpolicy.rule_kind import Kind
from netpolicy.rule_kinds import KINDS, kind_of_test

VERSION = 1


def policy_to_mapping(policy: Policy, kinds: Sequence[Kind[Any, Any]] = KINDS) -> dict[str, object]:
    """The exact inverse of `policy_from_mapping`."""
    written = [kind for kind in kinds if kind.always_written or kind.rules(policy)]
    index = write_keys(INDEX, policy.index)
    return {
        "version": VERSION,
        "name": policy.name,
        "session": write_keys(SESSION, policy.session),
        "limits": write_keys(LIMITS, policy.limits),
        **{kind.name: list(map(kind.write, kind.rules(policy))) for kind in written},
        **({"index": index} if index else {}),
        "preset": {"use": list(policy.presets)},
        "test": [kind_of_test(test).write_test(test) for test in policy.tests],
    }


def policy_digest(policy: Policy) -> str:
    """SHA-256, in hex, of the mapping as JSON with sorted keys."""
    text = json.dumps(policy_to_mapping(policy), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def policy_to_toml(policy: Policy, notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """`parse_policy` of it gives the same policy again; `notes` are comments above the rules of
    these ids."""
    mapping = policy_to_mapping(policy)
    blocks = [assignments({key: mapping[key] for key in ("version", "name")})]
    for key, value in mapping.items():
        if isinstance(value, Mapping) and any(value.values()):
            blocks.append([f"[{key}]", *assignments(value)])
        elif isinstance(value, list):
            blocks += [
                table_lines(key, item, (notes or {}).get(str(item.get("id")), ())) for item in value
            ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"
