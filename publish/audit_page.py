"""The table of audit events, out of the closed set of classes that can be written."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from audit import events
from audit.events import Event


def kinds() -> list[type[Event]]:
    """Every class of events, in the order of the module."""
    found = [each for each in vars(events).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, Event) and each is not Event]


def table() -> str:
    lines = ["| event | means | always | where known |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_row, kinds()), ""])


def _row(kind: type[Event]) -> str:
    always = [each.name for each in attrs.fields(kind) if each.default is attrs.NOTHING]
    known = [each.name for each in attrs.fields(kind) if each.default is not attrs.NOTHING]
    if kind.verdict is not None:
        always.append(f"decision={kind.verdict}")
    if kind.reported:
        always.append("reported")
    meaning = " ".join((kind.__doc__ or "").split())
    return f"| `{kind.event}` | {meaning} | {_codes(always)} | {_codes(known)} |"


def _codes(names: list[str]) -> str:
    return " ".join(_in_order(names)) or "none"


def _in_order(names: list[str]) -> Iterator[str]:
    order = list(events.KEYS)
    for name in sorted(names, key=lambda each: order.index(each.partition("=")[0])):
        yield f"`{name}`"
