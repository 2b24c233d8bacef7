"""`hostctl policy diff`: two policies compared, in words."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter

from gitmoat.paths import Paths
from hostctl.output import Output
from hostctl.policies.policyfile import named_policy
from netpolicy.difference import Difference, compare


def main(args: Namespace, paths: Paths, out: Output) -> int:
    found = compare(named_policy(paths, args.before), named_policy(paths, args.after))
    counts = Counter(str(each.direction) for each in found)
    if out.json:
        changes = [{"direction": d.direction, "where": d.where, "what": d.what} for d in found]
        numbers = {"wider": counts["wider"], "narrower": counts["narrower"]}
        out.emit({"schema": "gitmoat.policy-diff/1", **numbers, "changes": changes})
        return 0
    for each in found:
        out.line(_line(each, out))
    out.progress(_summary(args, counts) if found else "the two allow the same")
    return 0


def _line(each: Difference, out: Output) -> str:
    word = f"{each.direction + ':':<9}"
    painted = {"wider": out.bad, "narrower": out.good}.get(each.direction, out.dim)(word)
    return f"{painted} {each.where}: {each.what}"


def _summary(args: Namespace, counts: Counter[str]) -> str:
    parts = [f"{counts[word]} {word}" for word in ("wider", "narrower", "other") if counts[word]]
    return f"{args.after} against {args.before}: {', '.join(parts)}"
