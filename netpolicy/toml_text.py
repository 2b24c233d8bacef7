"""What a policy holds as TOML on few lines, as people write it: a value, a table, with comments."""

import json
from collections.abc import Mapping, Sequence


def table_lines(key: str, table: Mapping[str, object], notes: Sequence[str] = ()) -> list[str]:
    """One `[[key]]`, comments first."""
    return [*(f"# {note}" for note in notes), f"[[{key}]]", *assignments(table)]


def inline(table: Mapping[str, object]) -> str:
    """A table's keys on one line."""
    return ", ".join(assignments(table))


def assignments(table: Mapping[str, object]) -> list[str]:
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
