"""`hostctl policy explain`: what is decided, by which rule, and what would have to change."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection, Sequence

from gitwire.errors import Malformed
from gitwire.hostname import parse_destination
from gitwire.receivepack import Change, RefName, parse_ref
from hostctl.failure import DENIED, usage
from hostctl.output import Output
from hostctl.policyfile import named_policy
from hostctl.upstreamtable import known_upstreams, repository_of
from identity.paths import Paths
from netpolicy.decision import Allow, Deny, PushDenied
from netpolicy.egress import EgressAllow, decide_egress
from netpolicy.explain import AnyVerdict, decide_test
from netpolicy.matchers import BadPattern, parse_repo_name
from netpolicy.nearest import Missing, nearest_change, nearest_host_change
from netpolicy.policy import Policy, PolicyTest, Scheme, Tier

_CHANGES = {"push": Change.UPDATE, "create": Change.CREATE, "delete": Change.DELETE}

_SCHEMES: dict[str, tuple[Scheme, int]] = {"tunnel": ("tls", 443), "http": ("http", 80)}


def main(args: Namespace, out: Output) -> int:
    paths = Paths(args.root)
    policy = named_policy(paths, args.policy)
    upstreams = known_upstreams(paths)
    if args.operation in _SCHEMES:
        return _explain_host(args, out, policy, upstreams.names)
    wish = _wish(args, *repository_of(args.subject, upstreams))
    known = upstreams.by_name(wish.upstream)
    return _explain_git(args, out, policy, wish, known is not None and known.case_insensitive)


def _wish(args: Namespace, upstream: str, path: str) -> PolicyTest:
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


def _explain_git(args: Namespace, out: Output, policy: Policy, wish: PolicyTest, fold: bool) -> int:
    verdict = decide_test(policy, wish, fold)
    ref = "" if wish.ref is None else f" {wish.ref.text}"
    asked = f"{args.operation} {wish.upstream}:{wish.repository.text}{ref}"
    nearest = _words(lambda: nearest_change(policy, wish, fold))
    return _say(out, f"{asked} as {args.tier}", verdict, nearest, asked, args.tier)


def _explain_host(args: Namespace, out: Output, policy: Policy, git_hosts: Collection[str]) -> int:
    if args.ref is not None:
        raise usage("a host is named alone", "write HOST or HOST:PORT")
    scheme, port = _SCHEMES[args.operation]
    text = args.subject if ":" in args.subject else f"{args.subject}:{port}"
    try:
        to = parse_destination(text.encode())
    except Malformed as error:
        raise usage(error.what, "write HOST or HOST:PORT; an address is never reached") from None
    verdict = decide_egress(policy, to, scheme, git_hosts)
    nearest = _words(lambda: nearest_host_change(policy, to, scheme, git_hosts))
    asked = f"{args.operation} {to.text}"
    return _say(out, asked, verdict, nearest, asked, None)


def _say(
    out: Output,
    shown: str,
    verdict: AnyVerdict,
    nearest: tuple[str, ...],
    asked: str,
    who: str | None,
) -> int:
    allowed = isinstance(verdict, Allow | EgressAllow)
    code, why = _reason(verdict)
    if out.json:
        fields = {"allowed": allowed, "code": code, "who": who, "asked": asked, "why": why}
        more = {"rule": verdict.rule or None, "nearest": list(nearest)}
        out.emit({"schema": "gitmoat.policy-explain/1", **fields, **more})
    else:
        out.line(f"{'allowed' if allowed else f'denied ({code})'}: {shown}: {why}")
        for words in nearest:
            out.line(f"to allow it: {words}")
    return 0 if allowed else DENIED


def _words(nearest: Callable[[], Sequence[Missing]]) -> tuple[str, ...]:
    try:
        return tuple(each.words for each in nearest())
    except BadPattern:
        return ()  # a ref or a host that no pattern can spell


def _reason(verdict: AnyVerdict) -> tuple[str | None, str]:
    match verdict:
        case Allow() | EgressAllow():
            return None, f"by rule {verdict.rule}"
        case Deny():
            text = verdict.reason
        case PushDenied():
            text = next(iter(verdict.reasons.values())).removesuffix(f" ({verdict.code})")
    return verdict.code, f"{text} (rule {verdict.rule})" if verdict.rule else text
