"""Values and tables as TOML, on few lines and in their order, as people write it.

A library (tomli-w) would write a list on several lines and a table in a rule as a table of its own,
and has no text for a value alone, which is what `policy explain` and a key that is replaced need.
"""

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
            # TOML has no surrogates, in which JSON would escape what is not ASCII.
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
        case dict():
            return f"{{ {inline(value)} }}"
        case _:
            raise TypeError("only text, numbers, flags, lists and tables are written")
