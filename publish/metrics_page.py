"""The table of metrics, out of the families that the broker shows."""

from __future__ import annotations

from broker.metrics import FAMILIES, Family

_SUFFIX = {"counter": "_total", "histogram": "", "gauge": ""}


def table() -> str:
    lines = ["| metric | kind | labels | means |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_row, FAMILIES), ""])


def _row(family: Family) -> str:
    labels = " ".join(f"`{label}`" for label in family.labels) or "none"
    name = family.name + _SUFFIX[family.kind]
    return f"| `{name}` | {family.kind} | {labels} | {family.about} |"
