"""A rule about repositories, a change of one, and a test of one, in words."""

from collections.abc import Iterator

from netpolicy.format.key_rows import KeyChange, compare_keys, wider_if
from netpolicy.git_rules.tables import KEYS, PUSH_KEYS
from netpolicy.policy import GitRule, GitTest, PushRule, Tier


def rule_words(rule: GitRule) -> str:
    """The repositories and what the rule says of them."""
    acts = (["fetch"] if rule.fetch else []) + ([_push(rule.push)] if rule.push else [])
    words = "; ".join(acts) or "everything"
    return f"{', '.join(pattern.text for pattern in rule.repos)}: {words}"


def words_with_tiers(rule: GitRule) -> str:
    who = ", ".join(tier.value for tier in Tier if tier in rule.who)
    return f"{rule_words(rule)}, as {who}"


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


def changes(old: GitRule, new: GitRule) -> Iterator[KeyChange]:
    """As for a rule that allows."""
    if old.push is not None and new.push is not None:
        yield from compare_keys(PUSH_KEYS, old.push, new.push, prefix="push.")
    elif old.push is not new.push:
        word = "no longer covers" if new.push is None else "now covers"
        words = words_with_tiers(old if new.push is None else new)
        yield KeyChange(wider_if(new.push is not None), f"{word} pushes: {words}")
    yield from compare_keys(KEYS, old, new)


def test_words(test: GitTest) -> str:
    act = "fetch" if test.ref is None else f"{test.change.value} {test.ref.text}"
    return f"{test.who.value}: {act} of {test.upstream}:{test.repository.text}"
