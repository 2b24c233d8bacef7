"""The one place where git requests are allowed or denied.

Deny beats allow beats default deny; the order of rules never matters to the verdict.
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from gitmoat.codes import CODES
from gitmoat.wire.git.receivepack import Change, Command
from gitmoat.wire.git.report_status import WITH_THE_REST
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.policy import GitRule, Policy, Tier


@frozen
class Allow:
    """`rule` is the id that allowed it (several, with commas, for one push)."""

    rule: str


@frozen
class Deny:
    """`reason` is for the audit, never for the sandbox: it tells unknown from forbidden."""

    code: str
    reason: str
    rule: str = ""


@frozen
class PushDenied:
    """`reasons` has one text for each ref of the push, and may be shown to the sandbox."""

    code: str
    reasons: Mapping[str, str]
    rule: str = ""


Verdict = Allow | Deny


def decide_repository(
    policy: Policy, upstream: str, repository: RepositoryPath, tier: Tier, fold: bool
) -> Verdict:
    """Whether this tier may learn that the repository exists."""
    return _decide_visibility(_applying(policy, upstream, repository, tier, fold))


def decide_fetch(
    policy: Policy, upstream: str, repository: RepositoryPath, tier: Tier, fold: bool
) -> Verdict:
    rules = _applying(policy, upstream, repository, tier, fold)
    seen = _decide_visibility(rules)
    if isinstance(seen, Deny):
        return seen
    fetching = [rule for rule in rules if rule.fetch]
    return _deny_first(fetching, "G105", "no rule allows to fetch it")


def decide_push(
    policy: Policy,
    upstream: str,
    repository: RepositoryPath,
    tier: Tier,
    fold: bool,
    commands: Sequence[Command],
    options: bool = False,
) -> Allow | PushDenied:
    """One denied ref denies them all. No commands: git's probe, decided by the repository."""
    deciding = PushDecision(policy, upstream, repository, tier, fold, options)
    deciding.feed(commands)
    return deciding.verdict()


class PushDecision:
    """Of a push, a few commands at a time.

    `options`: the push carries options, which a rule must allow for every ref.
    """

    def __init__(
        self,
        policy: Policy,
        upstream: str,
        repository: RepositoryPath,
        tier: Tier,
        fold: bool,
        options: bool = False,
    ) -> None:
        self._rules = _applying(policy, upstream, repository, tier, fold)
        self._options = options
        self._seen = _decide_visibility(self._rules)
        self._verdicts: list[tuple[str, Verdict]] = []

    def feed(self, commands: Sequence[Command]) -> None:
        for command in commands:
            verdict = self._seen
            if isinstance(verdict, Allow):
                verdict = _decide_command(self._rules, command, self._options)
            self._verdicts.append((command.ref.text, verdict))

    def verdict(self) -> Allow | PushDenied:
        seen = self._seen
        if isinstance(seen, Deny):
            unseen = {ref: CODES[seen.code].text for ref, _ in self._verdicts}
            return PushDenied(seen.code, unseen, seen.rule)
        denied = {ref: verdict for ref, verdict in self._verdicts if isinstance(verdict, Deny)}
        if denied:
            return _push_denied([ref for ref, _ in self._verdicts], denied)
        allowed = (verdict for _, verdict in self._verdicts if isinstance(verdict, Allow))
        return Allow(",".join(dict.fromkeys(each.rule for each in allowed)) or seen.rule)


def allows_workflows(
    policy: Policy,
    upstream: str,
    repository: RepositoryPath,
    tier: Tier,
    fold: bool,
    commands: Sequence[Command],
) -> bool:
    """Whether every ref of an allowed push may bring files that the server runs by itself."""
    rules = [
        rule
        for rule in _applying(policy, upstream, repository, tier, fold)
        if rule.push is not None and rule.push.workflows
    ]
    return all(any(_covers_command(rule, command) for rule in rules) for command in commands)


def _applying(
    policy: Policy, upstream: str, repository: RepositoryPath, tier: Tier, fold: bool
) -> list[GitRule]:
    return [rule for rule in policy.git if rule.applies(upstream, repository, tier, fold)]


def _decide_visibility(rules: Sequence[GitRule]) -> Verdict:
    deciding = [rule for rule in rules if rule.effect == "allow" or rule.denies_everything]
    return _deny_first(deciding, "G101", "no rule names it")


def _deny_first(rules: Sequence[GitRule], code: str, otherwise: str) -> Verdict:
    """The verdict of the rules that cover one act."""
    for rule in rules:
        if rule.effect != "allow":
            return Deny(code, "a rule denies it", rule.id)
    return Allow(rules[0].id) if rules else Deny(code, otherwise)


def _decide_command(rules: Sequence[GitRule], command: Command, options: bool) -> Verdict:
    code = "G202" if command.change is Change.DELETE else "G201"
    covering = [rule for rule in rules if _covers_command(rule, command)]
    verdict = _deny_first(covering, code, CODES[code].text)
    if isinstance(verdict, Deny) or not options:
        return verdict
    optional = [rule for rule in covering if rule.push is not None and rule.push.options]
    return _deny_first(optional, "G204", CODES["G204"].text)


def _covers_command(rule: GitRule, command: Command) -> bool:
    push = rule.push
    return (
        push is not None and push.includes(command.change) and push.covers(command.ref, rule.effect)
    )


def _push_denied(refs: Sequence[str], denied: Mapping[str, Deny]) -> PushDenied:
    first = next(iter(denied.values()))
    reasons = {
        ref: f"{CODES[denied[ref].code].text} ({denied[ref].code})"
        if ref in denied
        else WITH_THE_REST
        for ref in refs
    }
    return PushDenied(first.code, reasons, first.rule)
