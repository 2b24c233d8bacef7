"""A report of `hostctl verify` in the XML that CI systems read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from hostctl.failure import plain


def junit(report: Mapping[str, Any]) -> str:
    rows = report["probes"]
    failures = sum(not row["ok"] for row in rows)
    name = quoteattr(f"gitmoat verify {plain(report['name'])}")
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name={name} tests="{len(rows)}" failures="{failures}" errors="0">',
        *(line for row in rows for line in _case(row)),
        "</testsuite>",
    ]
    return "\n".join(lines) + "\n"


def _case(row: Mapping[str, Any]) -> list[str]:
    about = quoteattr(f"{plain(row['probe'])} ({plain(row['as'])})")
    head = f"  <testcase classname={quoteattr(plain(row['group']))} name={about}"
    if row["ok"]:
        return [f"{head}/>"]
    text = f"{plain(row['code'])}: expected {plain(row['expect'])}, got {plain(row['got'])}"
    return [f"{head}>", f"    <failure message={quoteattr(text)}/>", "  </testcase>"]
