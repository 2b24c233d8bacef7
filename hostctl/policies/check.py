"""`hostctl policy check`: does the file parse, and do the tests in it hold?"""

from __future__ import annotations

from argparse import Namespace

from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.policyfile import load_policy, policy_path
from identity.paths import Paths
from netpolicy.explain import run_tests


def main(args: Namespace, out: Output) -> int:
    path = policy_path(Paths(args.root), args.policy)
    policy = load_policy(path)
    failures = run_tests(policy)
    for failure in failures[1:]:
        out.progress(f"test[{failure.index}]: {failure.what}")
    if failures:
        why = f"test[{failures[0].index}]: {failures[0].what}"
        what = f"{len(failures)} of {len(policy.tests)} tests in {path} do not hold"
        raise Failure("P103", what, why, "correct the rule or the test")
    numbers = {"git": len(policy.git), "egress": len(policy.egress), "tests": len(policy.tests)}
    counts = ", ".join(f"{name}: {number}" for name, number in numbers.items())
    text = f"{path}: policy {policy.name} is valid ({counts})"
    fields = {"schema": "gitmoat.policy-check/1", "name": policy.name, "valid": True, **numbers}
    out.result(text, fields)
    return 0
