"""`hostctl policy check`: does it parse, do its tests hold, is it as narrow as it looks?"""

from __future__ import annotations

from argparse import Namespace

from gitmoat.paths import Paths
from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.policies.policyfile import load_policy, remarks_of
from hostctl.policies.policytext import policy_path
from hostctl.policies.resolve_presets import expand
from hostctl.policies.upstreamtable import known_upstreams
from netpolicy.expectations import run_tests
from netpolicy.rule_kinds import KINDS


def main(args: Namespace, paths: Paths, out: Output) -> int:
    path = policy_path(paths, args.policy)
    policy, answers = expand(paths, load_policy(path))
    failures = run_tests(policy, git_hosts=known_upstreams(paths).names)
    for failure in failures[1:]:
        out.progress(f"test[{failure.index}]: {failure.what}")
    if failures:
        why = f"test[{failures[0].index}]: {failures[0].what}"
        what = f"{len(failures)} of {len(policy.tests)} tests in {path} do not hold"
        raise Failure("P103", what, why, "correct the rule or the test")
    remarks = remarks_of(paths, path, policy)
    for note in (note for found in answers.values() for note in found.notes):
        out.progress(f"note: {note}")
    numbers = {kind.name: len(kind.rules(policy)) for kind in KINDS} | {"tests": len(policy.tests)}
    if out.json:
        warnings = [{"path": r.path, "what": r.what, "hint": r.hint} for r in remarks]
        about = {"name": policy.name, "valid": True, **numbers, "warnings": warnings}
        out.emit({"schema": "gitmoat.policy-check/1", **about})
        return 0
    for remark in remarks:
        out.line(f"warning: {remark.path}: {remark.what}; {remark.hint}")
    counts = ", ".join(f"{name}: {number}" for name, number in numbers.items())
    out.result(f"{path}: policy {policy.name} is valid ({counts})", {})
    return 0
