"""`hostctl policy learn`: prints rules that would allow what a sandbox was refused."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from attrs import evolve

from gitmoat.paths import Paths
from hostctl.failure import Failure
from hostctl.journals import Record, events, matches, sandbox_names
from hostctl.output import Output, need_root
from hostctl.policies.policyfile import is_shared, sandbox_policy
from hostctl.policies.resolve_presets import resolve
from hostctl.policies.upstreamtable import known_upstreams
from hostctl.terminal.moments import seconds_of
from netpolicy.format.document import policy_from_mapping
from netpolicy.format.toml_text import table_lines
from netpolicy.policy import Policy
from netpolicy.presets.names import PRESETS
from netpolicy.rule_kind import CheckContext, Kind, Learned, Refused, Suggestion
from netpolicy.rule_kinds import KINDS, rules_of


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl policy learn`")
    answers = resolve(paths.root, PRESETS)
    records = _records(paths, args.sandbox)
    policy = _policy(paths, args.sandbox)
    context = CheckContext(known_upstreams(paths), is_shared)
    results = []
    for kind in KINDS:
        refused = refused_of(records, kind.name, time.time() - args.since)
        results.append((kind, kind.learn(policy, refused, answers, context)))
    _show(out, results, _free_ids(policy))
    return 0


def _free_ids(policy: Policy) -> Iterator[str]:
    """Rules that were appended earlier keep their ids, so these need others."""
    taken = {rule.id for rule in rules_of(policy)}
    return (name for number in count(1) if (name := f"learned-{number}") not in taken)


def _records(paths: Paths, sandbox: str) -> list[Record]:
    everything = events(paths)
    names = sandbox_names(sandbox, everything)
    found = [event for event in everything if matches(event, names, denied_only=False)]
    if not found:
        what = f"the audit has no record of sandbox {sandbox!r}"
        raise Failure("R103", what, "no record has this id or name")
    return found


def refused_of(records: list[Record], kind: str, since: float) -> list[Refused]:
    """The refusals of one kind among the records; malformed ones are left out."""
    found = []
    for record in records:
        told = [record.get(key) for key in ("op", "code", "to")]
        if record.get("event") != f"{kind}.decision" or record.get("decision") != "deny":
            continue
        if not all(isinstance(each, str) for each in told) or seconds_of(record.get("ts")) < since:
            continue
        count = record.get("count")
        op, code, to = map(str, told)
        found.append(Refused(op, code, to, count if type(count) is int and count > 0 else 1))
    return found


def _policy(paths: Paths, sandbox: str) -> Policy:
    """The sandbox's own policy; for a removed sandbox one that allows nothing."""
    try:
        return sandbox_policy(paths, sandbox)
    except Failure as failure:
        if failure.code not in ("R103", "C103", "P102"):
            raise
        return policy_from_mapping({"version": 1, "name": "gone"})


def _show(
    out: Output, results: Sequence[tuple[Kind[Any, Any], Learned]], ids: Iterator[str]
) -> None:
    if out.json:
        out.emit({"schema": "gitmoat.policy-learn/1", **_fields([each for _, each in results])})
        return
    for kind, result in results:
        for name, found in result.presets.items():
            hosts = ", ".join(f"{place} ({count})" for place, count in found.items())
            out.line(f'# preset {name} covers {hosts}: add "{name}" to preset.use')
        for each in result.suggestions:
            out.line("")
            for line in table_lines(
                kind.name, kind.write(evolve(each.rule, id=next(ids))), [_why(each)]
            ):
                out.line(line)
    for _, result in results:
        for note in result.notes:
            out.progress(f"note: {note}")
    if not any(result.presets or result.suggestions for _, result in results):
        out.progress("no host was refused that a rule would allow")
    else:
        out.progress(
            "this allows nothing: append to a policy the rules that you have read and want"
        )


def _fields(results: Sequence[Learned]) -> dict[str, object]:
    return {
        "presets": {name: list(found) for each in results for name, found in each.presets.items()},
        "hosts": [dict(found.told) for each in results for found in each.suggestions],
        "notes": [note for each in results for note in each.notes],
    }


def _why(each: Suggestion) -> str:
    return f"refused {each.count} time{'' if each.count == 1 else 's'}"
