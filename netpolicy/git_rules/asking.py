"""What the rules about repositories say to a question, and what they lack to allow it: the fewest
edits of the file.

Rules that deny are named first, because they beat any other. Then comes what the nearest rule that
allows lacks, or a rule of its own when none is near.
"""

from collections.abc import Iterator
from typing import Final

from gitmoat.wire.git.receivepack import Change, Command, ObjectId, RefName, parse_ref
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Allow, Deny, PushDenied, decide_fetch, decide_push
from netpolicy.patterns.matchers import BadPattern, RefPattern, RepoPattern, parse_repo_name
from netpolicy.policy import GitRule, GitTest, Policy
from netpolicy.rule_kind import GitServers, Missing, Question

_NONE: Final = ObjectId("0" * 40)
_SOME: Final = ObjectId("1" * 40)
_OBJECTS: Final = {
    Change.CREATE: (_NONE, _SOME),
    Change.UPDATE: (_SOME, _SOME),
    Change.DELETE: (_SOME, _NONE),
}
_CHANGES: Final = {
    "fetch": Change.UPDATE,
    "push": Change.UPDATE,
    "create": Change.CREATE,
    "delete": Change.DELETE,
}
OPERATIONS: Final = tuple(_CHANGES)


def as_test(question: Question) -> GitTest:
    """The question as a test; BadPattern for what is no repository or no ref."""
    upstream, path = question.locate(question.subject)
    full = _full_name(question)
    try:
        _, repository = parse_repo_name(f"{upstream}:{path}")
        ref = None if full is None else parse_ref(full.encode())
    except (BadPattern, Malformed) as error:
        hint = "write the repository as upstream:path and the ref as refs/heads/NAME"
        raise BadPattern(error.what, hint) from None
    change = _CHANGES[question.operation]
    return GitTest("allow", question.tier, upstream, repository, ref, change)


def _full_name(question: Question) -> str | None:
    """A name without `refs/` is a branch's, as in `git push`."""
    if question.operation == "fetch":
        if question.ref is not None:
            raise BadPattern("a fetch is of a whole repository", "leave the ref out")
        return None
    if question.ref is None:
        raise BadPattern(f"{question.operation} needs a ref", "name it: main, or refs/tags/v1")
    return question.ref if question.ref.startswith("refs/") else f"refs/heads/{question.ref}"


def decide(policy: Policy, test: GitTest, servers: GitServers) -> Allow | Deny | PushDenied:
    where = (policy, test.upstream, test.repository, test.who, servers.folds(test.upstream))
    if test.ref is None:
        return decide_fetch(*where)
    return decide_push(*where, [Command(*_OBJECTS[test.change], test.ref)])


def nearest(policy: Policy, wanted: GitTest, servers: GitServers) -> tuple[Missing, ...]:
    """Nothing when it is allowed. BadPattern for a ref that no pattern can spell."""
    if isinstance(decide(policy, wanted, servers), Allow):
        return ()
    fold = servers.folds(wanted.upstream)
    denying = [Missing("git", rule.id, "") for rule in policy.git if _denies(rule, wanted, fold)]
    near = [
        list(_lacks(rule, wanted))
        for rule in policy.git
        if rule.effect == "allow" and _names(rule, wanted, fold)
    ]
    own = [Missing("git", "", "", _own_rule(wanted))] if not near else min(near, key=len)
    return (*denying, *own)


def _denies(rule: GitRule, wanted: GitTest, fold: bool) -> bool:
    where = (wanted.upstream, wanted.repository, wanted.who, fold)
    if rule.effect == "allow" or not rule.applies(*where):
        return False
    if rule.denies_everything:
        return True
    if wanted.ref is None:
        return rule.fetch
    push = rule.push
    if push is None or not push.includes(wanted.change):
        return False
    return push.covers(wanted.ref, rule.effect)


def _names(rule: GitRule, wanted: GitTest, fold: bool) -> bool:
    return any(pattern.matches(wanted.upstream, wanted.repository, fold) for pattern in rule.repos)


def _lacks(rule: GitRule, wanted: GitTest) -> Iterator[Missing]:
    if wanted.who not in rule.who:
        yield Missing("git", rule.id, "who", wanted.who.value)
    if wanted.ref is None:
        if not rule.fetch:
            yield Missing("git", rule.id, "fetch", True)
    elif rule.push is None:
        yield Missing("git", rule.id, "push", _own_push(wanted.ref, wanted.change))
    else:
        if not rule.push.covers(wanted.ref, rule.effect):
            key, short = _spelling(wanted.ref)
            yield Missing("git", rule.id, f"push.{key}", short)
        if not rule.push.includes(wanted.change):
            yield Missing("git", rule.id, f"push.{wanted.change.value}", True)


def _spelling(ref: RefName) -> tuple[str, str]:
    """The key of `push` that a ref belongs under, and how it is written there."""
    RefPattern(ref.text)
    for key, prefix in (("branches", "refs/heads/"), ("tags", "refs/tags/")):
        short = ref.text.removeprefix(prefix)
        if short != ref.text and not short.startswith("refs/"):
            return key, short
    return "refs", ref.text


def _own_rule(wanted: GitTest) -> dict[str, object]:
    repository = RepoPattern(wanted.upstream, wanted.repository.text).text
    rule: dict[str, object] = {"repos": [repository]}
    if wanted.ref is None:
        rule["fetch"] = True
    else:
        rule["push"] = _own_push(wanted.ref, wanted.change)
    return rule | {"who": [wanted.who.value]}


def _own_push(ref: RefName, change: Change) -> dict[str, object]:
    key, short = _spelling(ref)
    push: dict[str, object] = {key: [short]}
    if change is Change.DELETE:
        push |= {"create": False, "update": False, "delete": True}
    return push
