"""The smallest change to a policy that would allow what it denies, in words and done."""

from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from gitwire.receivepack import Change, RefName
from netpolicy.decision import Allow
from netpolicy.explain import decide_test
from netpolicy.matchers import RefPattern, RepoPattern
from netpolicy.policy import GitRule, Policy, PolicyTest, PushRule, Tier

_HEADS = "refs/heads/"
_TAGS = "refs/tags/"


@frozen
class Nearest:
    """`words` says what to change; `policy` is the policy after it."""

    words: tuple[str, ...]
    policy: Policy


@frozen
class _Edit:
    words: str
    rule: GitRule


def nearest_change(policy: Policy, wish: PolicyTest, fold: bool) -> Nearest | None:
    """None when nothing needs to change. Rules that deny are named first: they beat any other."""
    if isinstance(decide_test(policy, wish, fold), Allow):
        return None
    denying = [rule for rule in policy.git if _denies(rule, wish, fold)]
    words = [
        f"rule {rule.id} denies it, and deny beats allow: change that rule" for rule in denying
    ]
    rules = [rule for rule in policy.git if rule not in denying]
    left = evolve(policy, git=tuple(rules))
    if isinstance(decide_test(left, wish, fold), Allow):
        return Nearest(tuple(words), left)
    more, changed = _allowing(rules, wish, fold)
    return Nearest((*words, *more), evolve(policy, git=tuple(changed)))


def _denies(rule: GitRule, wish: PolicyTest, fold: bool) -> bool:
    if rule.effect == "allow" or not rule.applies(wish.upstream, wish.repository, wish.who, fold):
        return False
    if rule.denies_everything:
        return True
    if wish.ref is None:
        return rule.fetch
    push = rule.push
    return push is not None and push.includes(wish.change) and push.covers(wish.ref, rule.effect)


def _allowing(
    rules: Sequence[GitRule], wish: PolicyTest, fold: bool
) -> tuple[list[str], list[GitRule]]:
    """One rule that allows, changed as little as will do; a rule of its own when none is near."""
    near = [
        (edits, rule)
        for rule in rules
        if rule.effect == "allow" and _names(rule, wish, fold)
        for edits in [_edits(rule, wish)]
    ]
    if not near:
        rule = _own_rule(rules, wish)
        return [f"add a rule: {_written(rule)}"], [*rules, rule]
    edits, chosen = min(near, key=lambda each: len(each[0]))
    words = [f"in rule {chosen.id}: {edit.words}" for edit in edits]
    return words, [edits[-1].rule if rule is chosen else rule for rule in rules]


def _names(rule: GitRule, wish: PolicyTest, fold: bool) -> bool:
    return any(pattern.matches(wish.upstream, wish.repository, fold) for pattern in rule.repos)


def _edits(rule: GitRule, wish: PolicyTest) -> list[_Edit]:
    """What this rule lacks, each edit on top of the one before."""
    edits: list[_Edit] = []
    steps: list[Callable[[GitRule, PolicyTest], _Edit | None]] = [_who, _fetch, _ref, _kind]
    for step in steps:
        edit = step(edits[-1].rule if edits else rule, wish)
        if edit is not None:
            edits.append(edit)
    return edits


def _who(rule: GitRule, wish: PolicyTest) -> _Edit | None:
    if wish.who in rule.who:
        return None
    return _Edit(f'add "{wish.who.value}" to who', evolve(rule, who=rule.who | {wish.who}))


def _fetch(rule: GitRule, wish: PolicyTest) -> _Edit | None:
    if wish.ref is not None or rule.fetch:
        return None
    return _Edit("set fetch = true", evolve(rule, fetch=True))


def _ref(rule: GitRule, wish: PolicyTest) -> _Edit | None:
    if wish.ref is None:
        return None
    if rule.push is None:
        push = _own_push(wish.ref, wish.change)
        return _Edit(f"add push = {_written_push(push)}", evolve(rule, push=push))
    if rule.push.covers(wish.ref, rule.effect):
        return None
    key, short = _spelling(wish.ref)
    push = _with_ref(rule.push, wish.ref)
    return _Edit(f'add "{short}" to push.{key}', evolve(rule, push=push))


def _kind(rule: GitRule, wish: PolicyTest) -> _Edit | None:
    if wish.ref is None or rule.push is None or rule.push.includes(wish.change):
        return None
    push = _with_kind(rule.push, wish.change)
    return _Edit(f"set push.{wish.change.value} = true", evolve(rule, push=push))


def _with_ref(push: PushRule, ref: RefName) -> PushRule:
    pattern = RefPattern(ref.text)
    match _spelling(ref)[0]:
        case "branches":
            return evolve(push, branches=(*push.branches, pattern))
        case "tags":
            return evolve(push, tags=(*push.tags, pattern))
        case _:
            return evolve(push, refs=(*push.refs, pattern))


def _with_kind(push: PushRule, change: Change) -> PushRule:
    match change:
        case Change.CREATE:
            return evolve(push, create=True)
        case Change.UPDATE:
            return evolve(push, update=True)
        case Change.DELETE:
            return evolve(push, delete=True)


def _spelling(ref: RefName) -> tuple[str, str]:
    """The key of `push` that a ref belongs under, and how it is written there."""
    for key, prefix in (("branches", _HEADS), ("tags", _TAGS)):
        short = ref.text.removeprefix(prefix)
        if short != ref.text and not short.startswith("refs/"):
            return key, short
    return "refs", ref.text


def _own_rule(rules: Sequence[GitRule], wish: PolicyTest) -> GitRule:
    taken = {rule.id for rule in rules}
    number = next(n for n in range(1, len(taken) + 2) if f"new-{n}" not in taken)
    return GitRule(
        id=f"new-{number}",
        effect="allow",
        repos=(RepoPattern(wish.upstream, wish.repository.text),),
        fetch=wish.ref is None,
        push=None if wish.ref is None else _own_push(wish.ref, wish.change),
        who=frozenset({wish.who}),
    )


def _own_push(ref: RefName, change: Change) -> PushRule:
    delete = change is Change.DELETE
    return _with_ref(PushRule((), (), (), not delete, not delete, delete, workflows=False), ref)


def _written(rule: GitRule) -> str:
    """As it would stand in the file, on one line."""
    act = "fetch = true" if rule.push is None else f"push = {_written_push(rule.push)}"
    who = ", ".join(f'"{tier.value}"' for tier in Tier if tier in rule.who)
    return f'[[git]] repos = ["{rule.repos[0].text}"], {act}, who = [{who}]'


def _written_push(push: PushRule) -> str:
    key, short = _spelling(RefName((*push.branches, *push.tags, *push.refs)[0].text))
    kinds = "create = false, update = false, delete = true" if push.delete else ""
    return "{ " + ", ".join(filter(None, [f'{key} = ["{short}"]', kinds])) + " }"
