"""What the hosts that are enrolled here may grant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitmoat.paths import Paths
from hostctl.doctor.findings import Finding, good, note
from hostctl.failure import Failure
from hostctl.setup.brokerfiles import configured
from netpolicy.ceiling import ANY, allowed_kinds
from netpolicy.rule_kinds import KINDS


def enrolments(paths: Paths) -> Iterator[Finding]:
    try:
        tables = configured(paths, "host")
    except Failure:
        return  # reported with the git servers
    for name, (path, values) in tables.items():
        yield _judge(name, path, values)


def _judge(name: str, path: Path, values: Mapping[str, Any]) -> Finding:
    allow = values.get("allow")
    if allow == ANY:
        return good("hosts", f"{name} may grant every kind of rule")
    named = allowed_kinds(allow)
    others = [f"[[{kind.name}]]" for kind in KINDS if kind.name not in named]
    nothing = f", and nothing of {', '.join(others)}" if others else ""
    text = f"{name} may grant {', '.join(f'[[{kind}]]' for kind in named)} rules{nothing}"
    if allow is not None:
        return good("hosts", text)
    what = f"{text}: its enrolment is from before these were named"
    fix = f'add allow = "any", or a list like ["git"], to [host.{name}] in {path}; `hostctl reload`'
    return note("hosts", what, fix)
