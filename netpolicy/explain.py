"""What people read: the lines of a refusal, and the tests that a policy carries."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from attrs import frozen

from gitwire.receivepack import Change, Command, ObjectId
from netpolicy.codes import CODES
from netpolicy.decision import Allow, Deny, PushDenied, decide_fetch, decide_push
from netpolicy.egress import EgressAllow, decide_egress
from netpolicy.policy import EgressTest, GitRule, Policy, PolicyTest, PushRule, Tier

AnyVerdict = Allow | Deny | PushDenied | EgressAllow

MAX_LINES: Final = 5
MAX_WIDTH: Final = 100
BRAKED: Final = (
    "do not retry: it will be refused again, and every refused request is answered more slowly",
)
_NOT_SHOWN = re.compile(r"[^ -~]")
_NONE: Final = ObjectId("0" * 40)
_SOME: Final = ObjectId("1" * 40)
_OBJECTS: Final = {
    Change.CREATE: (_NONE, _SOME),
    Change.UPDATE: (_SOME, _SOME),
    Change.DELETE: (_SOME, _NONE),
}


@frozen
class Failure:
    """A test of the policy that does not hold; `index` is its place, from 0."""

    index: int
    what: str


def refusal_lines(
    code: str, request_id: str, policy: Policy, tier: Tier, braked: bool = False
) -> list[str]:
    """What a sandbox is told: the code, what IS allowed, the id that leads the owner to the rest.

    Made from the code alone, so that unknown and forbidden repositories look the same. `braked`:
    so much was refused lately that answers are slowed down.
    """
    known = CODES[code]
    lines = [f"gitmoat: {known.text} ({known.id})"]
    if code.startswith(("G1", "G2")):
        lines += allowed_lines(policy, tier)
    if braked:
        lines += BRAKED
    return [*map(_shown, lines), _shown(f"request id: {request_id}")]


def allowed_lines(policy: Policy, tier: Tier) -> list[str]:
    """The rules that allow this tier something, one line each, at most five lines."""
    rules = [rule for rule in policy.git if rule.effect == "allow" and tier in rule.who]
    if not rules:
        return [_nothing(tier)]
    if len(rules) <= MAX_LINES:
        return [_shown(f"allowed: {rule_words(rule)}") for rule in rules]
    lines = [_shown(f"allowed: {rule_words(rule)}") for rule in rules[: MAX_LINES - 1]]
    return [*lines, f"allowed: and {len(rules) - len(lines)} more rules"]


def run_tests(
    policy: Policy, folding: Collection[str] | None = None, git_hosts: Collection[str] = ()
) -> list[Failure]:
    """Try the policy's own tests. `folding` names the upstreams that ignore case; without it
    a test must hold both ways. `git_hosts` are the git servers' names."""
    failures = []
    for index, test in enumerate(policy.tests):
        for verdict in _verdicts(policy, test, folding, git_hosts):
            allowed = isinstance(verdict, Allow | EgressAllow)
            if allowed != (test.expect == "allow"):
                failures.append(Failure(index, _failed(test, verdict)))
                break
    return failures


def _verdicts(
    policy: Policy,
    test: PolicyTest | EgressTest,
    folding: Collection[str] | None,
    git_hosts: Collection[str],
) -> Iterator[AnyVerdict]:
    if isinstance(test, EgressTest):
        yield decide_egress(policy, test.to, test.scheme, git_hosts)
        return
    for fold in (False, True) if folding is None else (test.upstream in folding,):
        yield decide_test(policy, test, fold)


def _nothing(tier: Tier) -> str:
    if tier is Tier.UNTRUSTED:
        return "allowed: no git network for this process; the sandbox's owner fetches and pushes"
    return "allowed: no repository"


def rule_words(rule: GitRule) -> str:
    """The repositories and what the rule says of them."""
    acts = (["fetch"] if rule.fetch else []) + ([_push(rule.push)] if rule.push else [])
    words = "; ".join(acts) or "everything"
    return f"{', '.join(pattern.text for pattern in rule.repos)}: {words}"


def _push(push: PushRule) -> str:
    changes = {"create": push.create, "update": push.update, "delete": push.delete}
    kinds = "/".join(kind for kind, included in changes.items() if included)
    usual = kinds == "create/update"
    options = " with options" if push.options else ""
    return f"push {', '.join(_refs(push))}" + ("" if usual else f" ({kinds})") + options


def _refs(push: PushRule) -> list[str]:
    branches = [pattern.text.removeprefix("refs/heads/") for pattern in push.branches]
    tags = [f"tag {pattern.text.removeprefix('refs/tags/')}" for pattern in push.tags]
    return branches + tags + [pattern.text for pattern in push.refs]


def _shown(line: str) -> str:
    line = _NOT_SHOWN.sub("?", line)
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 3] + "..."


def decide_test(policy: Policy, test: PolicyTest, fold: bool) -> Allow | Deny | PushDenied:
    """What the policy says to what a test asks."""
    where = (policy, test.upstream, test.repository, test.who, fold)
    if test.ref is None:
        return decide_fetch(*where)
    return decide_push(*where, [Command(*_OBJECTS[test.change], test.ref)])


def _failed(test: PolicyTest | EgressTest, verdict: AnyVerdict) -> str:
    asked = _asked(test)
    if isinstance(verdict, Allow | EgressAllow):
        return f"{asked} is allowed by rule {verdict.rule}, expected deny"
    return f"{asked} is denied ({verdict.code}), expected allow"


def _asked(test: PolicyTest | EgressTest) -> str:
    if isinstance(test, EgressTest):
        return f"{test.to.text} by {test.scheme}"
    act = "fetch" if test.ref is None else f"{test.change.value} {test.ref.text}"
    return f"{test.who.value}: {act} of {test.upstream}:{test.repository.text}"
