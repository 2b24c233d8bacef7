"""`hostctl policy`: is a policy file right, and what does it decide?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hostctl.arguments import sub_parsers
from hostctl.failure import DENIED, Failure, usage
from hostctl.output import Output

if TYPE_CHECKING:
    from netpolicy.decision import Allow, Deny, PushDenied
    from netpolicy.policy import Policy

ABOUT = "Checks policies and explains what they decide."
_EXPLAIN = """Says what a policy file, or the policy of a running sandbox, decides.
Exit 0: allowed. Exit 3: denied."""


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    check = add("check", "Parses a policy file and runs the tests in it.")
    check.add_argument("policy", metavar="FILE")
    explain = add("explain", _EXPLAIN)
    explain.add_argument("policy", metavar="S|FILE")
    explain.add_argument("operation", metavar="OP", choices=("fetch", "push", "delete"))
    explain.add_argument("repository", metavar="UPSTREAM:PATH")
    explain.add_argument("ref", nargs="?", metavar="REF", help="push, delete: refs/heads/...")
    explain.add_argument("--as", dest="tier", choices=("helper", "untrusted"), default="helper")


def main(args: Namespace, out: Output) -> int:
    return _check(args, out) if args.action == "check" else _explain(args, out)


def _check(args: Namespace, out: Output) -> int:
    from hostctl.policyfile import load_policy, policy_path
    from identity.paths import Paths
    from netpolicy.explain import run_tests

    path = policy_path(Paths(args.root), args.policy)
    policy = load_policy(path)
    failures = run_tests(policy)
    if failures:
        first = failures[0]
        why = f"test[{first.index}]: {first.what}"
        what = f"{len(failures)} of {len(policy.tests)} tests in {path} do not hold"
        raise Failure("P103", what, why, "correct the rule or the test")
    numbers = {"git": len(policy.git), "egress": len(policy.egress), "tests": len(policy.tests)}
    counts = ", ".join(f"{name}: {number}" for name, number in numbers.items())
    text = f"{path}: policy {policy.name} is valid ({counts})"
    fields = {"schema": "gitmoat.policy-check/1", "name": policy.name, "valid": True, **numbers}
    out.result(text, fields)
    return 0


def _explain(args: Namespace, out: Output) -> int:
    from netpolicy.decision import Allow

    verdict = _decide(_policy(args), args)
    allowed = isinstance(verdict, Allow)
    asked = " ".join(filter(None, (args.operation, args.repository, args.ref)))
    if isinstance(verdict, Allow):
        code, why = None, f"by rule {verdict.rule}"
    else:
        code, why = verdict.code, _reason(verdict)
    fields = {"allowed": allowed, "code": code, "who": args.tier, "asked": asked, "why": why}
    if out.json:
        out.emit({"schema": "gitmoat.policy-explain/1", **fields})
    else:
        out.line(f"{'allowed' if allowed else f'denied ({code})'}: {asked} as {args.tier}: {why}")
    return 0 if allowed else DENIED


def _policy(args: Namespace) -> Policy:
    from hostctl.policyfile import load_policy, policy_path, sandbox_policy
    from identity.paths import Paths

    paths = Paths(args.root)
    path = policy_path(paths, args.policy)
    is_file = "/" in args.policy or args.policy.endswith(".toml") or path.exists()
    return load_policy(path) if is_file else sandbox_policy(paths, args.policy)


def _decide(policy: Policy, args: Namespace) -> Allow | Deny | PushDenied:
    from gitwire.errors import Malformed
    from gitwire.receivepack import Command, ObjectId, parse_ref
    from netpolicy.decision import decide_fetch, decide_push
    from netpolicy.matchers import BadPattern, parse_repo_name
    from netpolicy.policy import Tier

    try:
        upstream, repository = parse_repo_name(args.repository)
        where = (policy, upstream, repository, Tier(args.tier), False)
        if args.operation == "fetch":
            return decide_fetch(*where)
        if args.ref is None:
            raise usage(f"{args.operation} needs a ref", "name it in full: refs/heads/main")
        old = ObjectId("1" * 40)
        new = ObjectId("0" * 40) if args.operation == "delete" else old
        return decide_push(*where, [Command(old, new, parse_ref(args.ref.encode()))])
    except (BadPattern, Malformed) as error:
        fix = "write the repository as upstream:path and the ref as refs/heads/NAME"
        raise usage(error.what, fix) from None


def _reason(verdict: Deny | PushDenied) -> str:
    from netpolicy.decision import Deny

    text = verdict.reason if isinstance(verdict, Deny) else next(iter(verdict.reasons.values()))
    return f"{text} (rule {verdict.rule})" if verdict.rule else text
