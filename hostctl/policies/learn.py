"""`hostctl policy learn`: what a sandbox was refused, as rules its owner may add."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from itertools import count

from attrs import evolve

from hostctl.clock import seconds_of
from hostctl.failure import Failure
from hostctl.journals import Record, events, matches, sandbox_names
from hostctl.output import Output, need_root
from hostctl.policyfile import is_shared, sandbox_policy
from hostctl.presets import resolve
from hostctl.upstreamtable import known_upstreams
from identity.paths import Paths
from netpolicy.document import policy_from_mapping
from netpolicy.learning import Lesson, Refused, Wanted, learn
from netpolicy.policy import EgressRule, Policy
from netpolicy.presets.names import PRESETS
from netpolicy.toml_text import rule_lines
from netpolicy.writing import egress_to_mapping


def main(args: Namespace, out: Output) -> int:
    need_root("`hostctl policy learn`")
    paths = Paths(args.root)
    answers = resolve(paths.root, PRESETS)
    refused = refused_of(_records(paths, args.sandbox), time.time() - args.since)
    upstreams = known_upstreams(paths)
    policy = _policy(paths, args.sandbox)
    lesson = learn(policy, refused, answers, upstreams.names, is_shared)
    _show(out, lesson, _with_free_ids(lesson.rules, policy))
    return 0


def _with_free_ids(rules: Sequence[EgressRule], policy: Policy) -> list[EgressRule]:
    """Rules that were appended earlier keep their ids, so these need others."""
    taken = {rule.id for rule in policy.git} | {rule.id for rule in policy.egress}
    free = (name for number in count(1) if (name := f"learned-{number}") not in taken)
    return [evolve(rule, id=name) for rule, name in zip(rules, free, strict=False)]


def _records(paths: Paths, sandbox: str) -> list[Record]:
    everything = events(paths)
    names = sandbox_names(sandbox, everything)
    found = [event for event in everything if matches(event, names, denied_only=False)]
    if not found:
        what = f"the audit knows no sandbox {sandbox!r}"
        raise Failure("R103", what, "no record has this id or name")
    return found


def refused_of(records: list[Record], since: float) -> list[Refused]:
    """The refusals of hosts among the records; odd ones are left out."""
    found = []
    for record in records:
        told = [record.get(key) for key in ("op", "code", "to")]
        if record.get("event") != "egress.decision" or record.get("decision") != "deny":
            continue
        if not all(isinstance(each, str) for each in told) or seconds_of(record.get("ts")) < since:
            continue
        count = record.get("count")
        op, code, to = map(str, told)
        found.append(Refused(op, code, to, count if type(count) is int and count > 0 else 1))
    return found


def _policy(paths: Paths, sandbox: str) -> Policy:
    """The sandbox's own policy; of one that is gone, everything refused counts."""
    try:
        return sandbox_policy(paths, sandbox)
    except Failure as failure:
        if failure.code not in ("R103", "C103", "P102"):
            raise
        return policy_from_mapping({"version": 1, "name": "gone"})


def _show(out: Output, lesson: Lesson, rules: Sequence[EgressRule]) -> None:
    if out.json:
        out.emit({"schema": "gitmoat.policy-learn/1", **_fields(lesson)})
        return
    for name, found in lesson.by_preset.items():
        hosts = ", ".join(f"{each.to.text} ({each.count})" for each in found)
        out.line(f'# preset {name} covers {hosts}: add "{name}" to preset.use')
    for rule, each in zip(rules, lesson.wanted, strict=True):
        out.line("")
        for line in rule_lines("egress", egress_to_mapping(rule), [_why(each)]):
            out.line(line)
    for note in lesson.notes:
        out.progress(f"note: {note}")
    if not lesson.presets and not lesson.wanted:
        out.progress("no host was refused that a rule would allow")
    else:
        out.progress("nothing is allowed by this: append to a policy what you have read and want")


def _fields(lesson: Lesson) -> dict[str, object]:
    presets = {name: [each.to.text for each in found] for name, found in lesson.by_preset.items()}
    hosts = [
        {"host": w.to.host.text, "port": w.to.port, "scheme": w.scheme, "refused": w.count}
        for w in lesson.wanted
    ]
    return {"presets": presets, "hosts": hosts, "notes": list(lesson.notes)}


def _why(each: Wanted) -> str:
    return f"refused {each.count} time{'' if each.count == 1 else 's'}"
