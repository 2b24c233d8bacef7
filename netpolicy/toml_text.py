"""A Policy as the text of a policy file: `parse_policy` of it gives the same policy again."""

import json
from collections.abc import Mapping, Sequence

from netpolicy.policy import Policy
from netpolicy.writing import policy_to_mapping


def policy_to_toml(policy: Policy, notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """Every default written out; `notes` are comments above the rules of these ids."""
    mapping = policy_to_mapping(policy)
    blocks = [_lines({key: mapping[key] for key in ("version", "name")})]
    for key, value in mapping.items():
        if isinstance(value, Mapping) and any(value.values()):
            blocks.append([f"[{key}]", *_lines(value)])
        elif isinstance(value, list):
            blocks += [
                rule_lines(key, item, (notes or {}).get(str(item.get("id")), ())) for item in value
            ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def rule_lines(key: str, rule: Mapping[str, object], notes: Sequence[str] = ()) -> list[str]:
    """One `[[key]]` of a policy file, comments first."""
    return [*(f"# {note}" for note in notes), f"[[{key}]]", *_lines(rule)]


def inline(table: Mapping[str, object]) -> str:
    """A table's keys on one line."""
    return ", ".join(_lines(table))


def _lines(table: Mapping[str, object]) -> list[str]:
    return [f"{key} = {value_text(value)}" for key, value in table.items()]


def value_text(value: object) -> str:
    """A value as it stands behind `=`."""
    match value:
        case bool() | int() | str():
            return json.dumps(value)
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
        case dict():
            return f"{{ {inline(value)} }}"
        case _:
            raise TypeError("a policy holds text, numbers, flags, lists and tables only")
