"""Rules added to a policy file: shown as a diff, checked whole, then written in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from hostctl.configfile import create_file, replace_file
from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.policyfile import invalid_policy
from hostctl.policytext import read_text
from netpolicy.additions import with_rules
from netpolicy.document import PolicyError
from netpolicy.policy import EgressRule


def write_rules(
    out: Output,
    path: Path,
    rules: Sequence[EgressRule],
    notes: Mapping[str, Sequence[str]],
    schema: str,
) -> int:
    """A file that is there gets the rules at its end; its own lines stay as they are."""
    before = read_text(path) if path.exists() else ""
    try:
        after = with_rules(before, path.stem, rules, notes)
    except PolicyError as error:
        raise invalid_policy(path, error) from None
    diff = list(
        unified_diff(
            before.splitlines(), after.splitlines(), str(path), f"{path} (new)", lineterm=""
        )
    )
    if after != before:
        _write(path, before, after)
    if out.json:
        fields = {"file": str(path), "rules": len(rules), "changed": after != before}
        out.emit({"schema": f"gitmoat.{schema}/1", **fields})
    else:
        for line in diff:
            out.line(line)
        out.progress(f"wrote {path}" if after != before else f"{path} says all of it already")
    return 0


def _write(path: Path, before: str, after: str) -> None:
    try:
        done = replace_file(path, after.encode()) if before else create_file(path, after, 0o644, -1)
    except OSError as error:
        what = f"{path} cannot be written"
        fix = "choose a place you may write to, or use sudo"
        raise Failure("C102", what, error.strerror or "", fix) from None
    if not done:
        raise Failure("C109", f"{path} came to be meanwhile", fix="look at it, then try again")
