"""Two policies compared, in words, each change marked: does it allow more, or less?

A change is called narrower only if nothing can be allowed by it that was not before.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import frozen

from netpolicy.explain import rule_words
from netpolicy.keys import GIT, LIMITS, PUSH, SESSION, Key, egress_keys
from netpolicy.policy import EgressRule, GitRule, Limits, Policy, PushRule, Scheme, Session, Tier

Direction = Literal["wider", "narrower", "other"]
_Rule = GitRule | EgressRule
_TOLD = ("id", "effect")  # by the rule's name


@frozen
class Difference:
    direction: Direction
    where: str
    what: str


def compare(before: Policy, after: Policy) -> list[Difference]:
    """What `after` says otherwise than `before`; tests are expectations and do not count."""
    found = list(_numbers("session", SESSION, before.session, after.session))
    found += _numbers("limits", LIMITS, before.limits, after.limits)
    found += _rules("git", before.git, after.git)
    found += _rules("egress", before.egress, after.egress)
    found += _items("preset", "use", before.presets, after.presets)
    if before.name != after.name:
        found.append(Difference("other", "name", f"{before.name} is now {after.name}"))
    return found


def _numbers(
    where: str, keys: Sequence[Key], before: Session | Limits, after: Session | Limits
) -> Iterator[Difference]:
    for key in keys:
        old, new = getattr(before, key.name), getattr(after, key.name)
        if old != new:
            words = f"{key.write(old)} is now {key.write(new)}"
            yield Difference(_direction(new > old), f"{where}.{key.name}", words)


def _direction(wider: bool) -> Direction:
    return "wider" if wider else "narrower"


def _rules(kind: str, before: Sequence[_Rule], after: Sequence[_Rule]) -> Iterator[Difference]:
    """Rules are the same by their id; one whose effect changed is gone, and a new one is there."""
    old, new = ({(rule.id, rule.effect): rule for rule in rules} for rules in (before, after))
    for key, rule in old.items():
        if key not in new:
            words = f"gone: {_words(rule)}"
            yield Difference(_direction(rule.effect == "deny"), _name(kind, rule), words)
    for key, rule in new.items():
        if key not in old:
            words = f"new: {_words(rule)}"
            yield Difference(_direction(rule.effect == "allow"), _name(kind, rule), words)
        else:
            yield from _changes(kind, old[key], rule)


def _name(kind: str, rule: _Rule) -> str:
    return f"{kind} rule {rule.id}" + (" (deny)" if rule.effect == "deny" else "")


def _words(rule: _Rule) -> str:
    if isinstance(rule, EgressRule):
        ports = f"port {', '.join(map(str, rule.ports))}" if rule.ports else "every port"
        hosts = ", ".join(host.text for host in rule.hosts)
        return f"{hosts}: {ports}" + (f" by {rule.scheme}" if rule.effect == "allow" else "")
    who = ", ".join(tier.value for tier in Tier if tier in rule.who)
    return f"{rule_words(rule)}, as {who}"


def _changes(kind: str, old: _Rule, new: _Rule) -> Iterator[Difference]:
    where = _name(kind, new)
    if _whole(old) != _whole(new):
        yield Difference("other", where, f"was: {_words(old)}; is now: {_words(new)}")
        return
    if isinstance(old, GitRule) and isinstance(new, GitRule):
        yield from _of_push(where, old, new)
    for change in _of_keys(where, _keys(old, new), old, new):
        yield _turned(change) if new.effect == "deny" else change


def _whole(rule: _Rule) -> bool:
    """Whether a rule that denies means everything because it lists nothing."""
    if isinstance(rule, GitRule):
        return rule.denies_everything
    return rule.effect == "deny" and not rule.ports


def _keys(old: _Rule, new: _Rule) -> Sequence[Key]:
    """Every key that has a meaning in one of the two."""
    if isinstance(old, EgressRule) and isinstance(new, EgressRule):
        scheme: Scheme = "http" if "http" in (old.scheme, new.scheme) else "tls"
        return egress_keys(new.effect, scheme)
    return GIT


def _of_push(where: str, old: GitRule, new: GitRule) -> Iterator[Difference]:
    deny = new.effect == "deny"
    if old.push is not None and new.push is not None:
        for change in _of_keys(where, PUSH, old.push, new.push, prefix="push."):
            yield _turned(change) if deny else change
    elif old.push is not new.push:
        word = "no longer speaks" if new.push is None else "now speaks"
        words = f"{word} of pushes: {_words(old if new.push is None else new)}"
        yield Difference(_direction((new.push is None) == deny), where, words)


def _of_keys(
    where: str,
    keys: Sequence[Key],
    old: _Rule | PushRule,
    new: _Rule | PushRule,
    prefix: str = "",
) -> Iterator[Difference]:
    """As for a rule that allows: more of anything is wider."""
    for key in keys:
        before, after = (key.write(getattr(rule, key.name)) for rule in (old, new))
        name = prefix + key.name
        if key.name in _TOLD or before == after:
            continue
        if isinstance(before, list):
            yield from _items(where, name, before, after)
        elif isinstance(before, bool):
            yield Difference(_direction(after), where, f"{name} is now {str(after).lower()}")
        else:
            yield Difference("other", where, f"{name}: {before} is now {after}")


def _items(
    where: str, key: str, before: Sequence[object], after: Sequence[object]
) -> Iterator[Difference]:
    for item in after:
        if item not in before:
            yield Difference("wider", where, f"{key}: {item} added")
    for item in before:
        if item not in after:
            yield Difference("narrower", where, f"{key}: {item} removed")


def _turned(change: Difference) -> Difference:
    """In a rule that denies, more of anything is narrower."""
    turned: dict[Direction, Direction] = {"wider": "narrower", "narrower": "wider"}
    return Difference(turned.get(change.direction, "other"), change.where, change.what)
