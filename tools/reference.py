"""The parts of the reference that are made from code: `docs/conf.py` writes them at each build."""

from __future__ import annotations

import json

import attrs

from broker.api.metrics import FAMILIES, Family
from gitmoat.audit.events import KEYS, Event
from gitmoat.audit.schema import journal_schema, kinds
from gitmoat.codes import CODES
from gitmoat.limits import table

# The first two characters of a code → the heading above its family.
CODE_FAMILIES = {
    "G1": "The repository",
    "G2": "Refs",
    "G3": "Size and rate",
    "H1": "The helper, and who is at the other end",
    "S1": "The session",
    "E1": "Other hosts",
    "P1": "The policy file",
    "U1": "The upstream",
    "B1": "The broker and the audit",
    "N1": "Network namespace, nftables, hostd's configuration",
    "N2": "A protection that does not hold",
    "R1": "The runtime and the git gate",
    "C1": "Control sockets and the command line",
}
_SUFFIX = {"counter": "_total", "histogram": "", "gauge": ""}


def made() -> dict[str, str]:
    """File in docs/reference/made → its text."""
    return {
        "audit-events.md": audit_events(),
        "audit.schema.json": json.dumps(journal_schema(), indent=2) + "\n",
        "codes.md": codes(),
        "limits.md": limits(),
        "metrics.md": metrics(),
    }


def codes() -> str:
    lines: list[str] = []
    for family in dict.fromkeys(code[:2] for code in CODES):
        lines += [f"## {CODE_FAMILIES[family]}", ""]
        lines += ["| code | what is said | what to do |", "|---|---|---|"]
        known = [code for code in CODES.values() if code.id.startswith(family)]
        lines += [f"| {code.id} | {code.text} | {code.fix} |" for code in known]
        lines.append("")
    return "\n".join(lines)


def limits() -> str:
    """Without the page's own heading and first paragraph, which docs/limits.md has."""
    _, heading, rest = table.page().partition("## ")
    return heading + rest


def metrics() -> str:
    lines = ["| metric | kind | labels | means |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_metric, FAMILIES), ""])


def _metric(family: Family) -> str:
    labels = " ".join(f"`{label}`" for label in family.labels) or "none"
    name = family.name + _SUFFIX[family.kind]
    return f"| `{name}` | {family.kind} | {labels} | {family.about} |"


def audit_events() -> str:
    lines = ["| event | means | always | where known |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_event, kinds()), ""])


def _event(kind: type[Event]) -> str:
    always = [each.name for each in attrs.fields(kind) if each.default is attrs.NOTHING]
    known = [each.name for each in attrs.fields(kind) if each.default is not attrs.NOTHING]
    if kind.verdict is not None:
        always.append(f"decision={kind.verdict}")
    if kind.reported:
        always.append("reported")
    meaning = " ".join((kind.__doc__ or "").split())
    return f"| `{kind.event}` | {meaning} | {_names(always)} | {_names(known)} |"


def _names(names: list[str]) -> str:
    order = list(KEYS)
    ordered = sorted(names, key=lambda each: order.index(each.partition("=")[0]))
    return " ".join(f"`{name}`" for name in ordered) or "none"
