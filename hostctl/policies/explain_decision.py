"""`hostctl policy explain`: what is decided, by which rule, and what would have to change."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from gitmoat.paths import Paths
from hostctl.failure import DENIED, usage
from hostctl.output import Output
from hostctl.policies.policyfile import named_policy
from hostctl.policies.upstreamtable import known_upstreams, repository_of
from netpolicy.decision import Allow, Deny, PushDenied
from netpolicy.patterns.matchers import BadPattern
from netpolicy.policy import Tier
from netpolicy.rule_kind import GitServers, Missing, Question, Verdict
from netpolicy.rule_kinds import KINDS


def main(args: Namespace, paths: Paths, out: Output) -> int:
    policy = named_policy(paths, args.policy)
    upstreams = known_upstreams(paths)
    kind = next(kind for kind in KINDS if args.operation in kind.operations)

    def locate(subject: str) -> tuple[str, str]:
        return repository_of(subject, upstreams)

    try:
        question = Question(args.operation, args.subject, args.ref, Tier(args.tier), locate)
        wanted = kind.as_test(question)
    except BadPattern as error:
        raise usage(error.what, error.hint) from None
    servers = GitServers(upstreams.folds, upstreams.names)
    verdict = kind.decide(policy, wanted, servers)
    nearest = _words(lambda: kind.nearest(policy, wanted, servers))
    written = kind.write_test(wanted)
    (subject,) = (written[key] for key in kind.test_keys if key in written)
    return _say(out, f"{args.operation} {subject}", written.get("who"), verdict, nearest)


def _say(out: Output, asked: str, who: object, verdict: Verdict, nearest: tuple[str, ...]) -> int:
    allowed = isinstance(verdict, Allow)
    code, why = _reason(verdict)
    if out.json:
        fields = {"allowed": allowed, "code": code, "who": who, "asked": asked, "why": why}
        more = {"rule": verdict.rule or None, "nearest": list(nearest)}
        out.emit({"schema": "gitmoat.policy-explain/1", **fields, **more})
    else:
        shown = asked if who is None else f"{asked} as {who}"
        out.line(f"{'allowed' if allowed else f'denied ({code})'}: {shown}: {why}")
        for words in nearest:
            out.line(f"to allow it: {words}")
    return 0 if allowed else DENIED


def _words(nearest: Callable[[], Sequence[Missing]]) -> tuple[str, ...]:
    try:
        return tuple(each.words for each in nearest())
    except BadPattern:
        return ()  # a ref or a host that no pattern can spell


def _reason(verdict: Verdict) -> tuple[str | None, str]:
    match verdict:
        case Allow():
            return None, f"by rule {verdict.rule}"
        case Deny():
            text = verdict.reason
        case PushDenied():
            text = next(iter(verdict.reasons.values())).removesuffix(f" ({verdict.code})")
    return verdict.code, f"{text} (rule {verdict.rule})" if verdict.rule else text
