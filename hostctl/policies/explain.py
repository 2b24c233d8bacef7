"""`hostctl policy explain`: what is decided, by which rule, and what would have to change."""

from __future__ import annotations

from argparse import Namespace

from gitwire.errors import Malformed
from gitwire.receivepack import Change, RefName, parse_ref
from hostctl.failure import DENIED, usage
from hostctl.output import Output
from hostctl.policyfile import named_policy
from hostctl.upstreamtable import known_upstreams, repository_of
from identity.paths import Paths
from netpolicy.decision import Allow, Deny, PushDenied
from netpolicy.explain import decide_test
from netpolicy.matchers import BadPattern
from netpolicy.nearest import nearest_change
from netpolicy.policy import Policy, PolicyTest, Tier

_CHANGES = {"push": Change.UPDATE, "create": Change.CREATE, "delete": Change.DELETE}


def main(args: Namespace, out: Output) -> int:
    paths = Paths(args.root)
    policy = named_policy(paths, args.policy)
    upstreams = known_upstreams(paths)
    wish = _wish(args, *repository_of(args.repository, upstreams))
    known = upstreams.by_name(wish.upstream)
    return _say(args, out, policy, wish, fold=known is not None and known.case_insensitive)


def _wish(args: Namespace, upstream: str, path: str) -> PolicyTest:
    from netpolicy.matchers import parse_repo_name

    try:
        _, repository = parse_repo_name(f"{upstream}:{path}")
        ref = _ref(args)
    except (BadPattern, Malformed) as error:
        fix = "write the repository as upstream:path and the ref as refs/heads/NAME"
        raise usage(error.what, fix) from None
    change = _CHANGES.get(args.operation, Change.UPDATE)
    return PolicyTest("allow", Tier(args.tier), upstream, repository, ref, change)


def _ref(args: Namespace) -> RefName | None:
    """A name without `refs/` is a branch's, as in `git push`."""
    if args.operation == "fetch":
        if args.ref is not None:
            raise usage("a fetch is of a whole repository", "leave the ref out")
        return None
    if args.ref is None:
        raise usage(f"{args.operation} needs a ref", "name it: main, or refs/tags/v1")
    full = args.ref if args.ref.startswith("refs/") else f"refs/heads/{args.ref}"
    return parse_ref(full.encode())


def _say(args: Namespace, out: Output, policy: Policy, wish: PolicyTest, fold: bool) -> int:
    verdict = decide_test(policy, wish, fold)
    allowed = isinstance(verdict, Allow)
    ref = "" if wish.ref is None else f" {wish.ref.text}"
    asked = f"{args.operation} {wish.upstream}:{wish.repository.text}{ref}"
    nearest = _nearest(policy, wish, fold)
    code, why = (
        (None, f"by rule {verdict.rule}") if isinstance(verdict, Allow) else _reason(verdict)
    )
    if out.json:
        fields = {"allowed": allowed, "code": code, "who": args.tier, "asked": asked, "why": why}
        more = {"rule": verdict.rule or None, "nearest": list(nearest)}
        out.emit({"schema": "gitmoat.policy-explain/1", **fields, **more})
    else:
        out.line(f"{'allowed' if allowed else f'denied ({code})'}: {asked} as {args.tier}: {why}")
        for words in nearest:
            out.line(f"to allow it: {words}")
    return 0 if allowed else DENIED


def _nearest(policy: Policy, wish: PolicyTest, fold: bool) -> tuple[str, ...]:
    try:
        nearest = nearest_change(policy, wish, fold)
    except BadPattern:
        return ()  # a ref that no pattern can spell
    return () if nearest is None else nearest.words


def _reason(verdict: Deny | PushDenied) -> tuple[str, str]:
    text = verdict.reason if isinstance(verdict, Deny) else next(iter(verdict.reasons.values()))
    text = text.removesuffix(f" ({verdict.code})")
    return verdict.code, f"{text} (rule {verdict.rule})" if verdict.rule else text
