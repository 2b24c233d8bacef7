"""Two policies compared, in words, each change marked: does it allow more, or less?

A change is called narrower only if nothing can be allowed by it that was not before.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import fields, frozen

from netpolicy.explain import rule_words
from netpolicy.matchers import HostPattern, RefPattern, RepoPattern
from netpolicy.policy import EgressRule, GitRule, Limits, Policy, PushRule, Session, Tier
from netpolicy.units import format_duration, format_size

Direction = Literal["wider", "narrower", "other"]
_Rule = GitRule | EgressRule
_TIMES = ("ttl", "idle")
_SIZES = ("push_max", "fetch_max")


@frozen
class Difference:
    direction: Direction
    where: str
    what: str


def compare(before: Policy, after: Policy) -> list[Difference]:
    """What `after` says otherwise than `before`; tests are expectations and do not count."""
    found = list(_numbers("session", before.session, after.session))
    found += _numbers("limits", before.limits, after.limits)
    found += _rules("git", before.git, after.git)
    found += _rules("egress", before.egress, after.egress)
    found += _items("preset", "use", before.presets, after.presets)
    if before.name != after.name:
        found.append(Difference("other", "name", f"{before.name} is now {after.name}"))
    return found


def _numbers(where: str, before: Session | Limits, after: Session | Limits) -> Iterator[Difference]:
    for attribute in fields(type(before)):
        key = attribute.name
        old, new = getattr(before, key), getattr(after, key)
        if old != new:
            words = f"{_quantity(key, old)} is now {_quantity(key, new)}"
            yield Difference(_direction(new > old), f"{where}.{key}", words)


def _quantity(key: str, value: int) -> str:
    if key in _TIMES:
        return format_duration(value)
    return format_size(value) if key in _SIZES else str(value)


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


def _ports(rule: _Rule) -> tuple[int, ...]:
    return rule.ports if isinstance(rule, EgressRule) else ()


def _changes(kind: str, old: _Rule, new: _Rule) -> Iterator[Difference]:
    where = _name(kind, new)
    if isinstance(old, GitRule) and isinstance(new, GitRule):
        if old.denies_everything != new.denies_everything:
            words = f"was: {_words(old)}; is now: {_words(new)}"
            yield Difference("other", where, words)
            return
        yield from _of_push(where, old, new)
    elif new.effect == "deny" and bool(_ports(old)) != bool(_ports(new)):
        # A rule that denies and names no port means every port.
        yield Difference("other", where, f"was: {_words(old)}; is now: {_words(new)}")
        return
    for change in _of_fields(where, old, new, skip=("id", "effect", "push")):
        yield _turned(change) if new.effect == "deny" else change


def _of_push(where: str, old: GitRule, new: GitRule) -> Iterator[Difference]:
    deny = new.effect == "deny"
    if old.push is not None and new.push is not None:
        for change in _of_fields(where, old.push, new.push, prefix="push."):
            yield _turned(change) if deny else change
    elif old.push is not new.push:
        word = "no longer speaks" if new.push is None else "now speaks"
        words = f"{word} of pushes: {_words(old if new.push is None else new)}"
        yield Difference(_direction((new.push is None) == deny), where, words)


def _of_fields(
    where: str,
    old: _Rule | PushRule,
    new: _Rule | PushRule,
    skip: Sequence[str] = (),
    prefix: str = "",
) -> Iterator[Difference]:
    """As for a rule that allows: more of anything is wider."""
    for attribute in fields(type(old)):
        key = attribute.name
        before, after = getattr(old, key), getattr(new, key)
        if key in skip or before == after:
            continue
        if isinstance(before, tuple | frozenset):
            yield from _items(where, prefix + key, _texts(key, before), _texts(key, after))
        elif isinstance(before, bool):
            words = f"{prefix}{key} is now {str(after).lower()}"
            yield Difference(_direction(after), where, words)
        else:
            yield Difference("other", where, f"{prefix}{key}: {before} is now {after}")


def _items(
    where: str, key: str, before: Sequence[str], after: Sequence[str]
) -> Iterator[Difference]:
    for item in after:
        if item not in before:
            yield Difference("wider", where, f"{key}: {item} added")
    for item in before:
        if item not in after:
            yield Difference("narrower", where, f"{key}: {item} removed")


def _texts(key: str, values: Sequence[object] | frozenset[object]) -> list[str]:
    """As the policy spells them."""
    prefix = {"branches": "refs/heads/", "tags": "refs/tags/"}.get(key, "")
    texts = [_text(value).removeprefix(prefix) for value in values]
    return sorted(texts) if isinstance(values, frozenset) else texts


def _text(value: object) -> str:
    match value:
        case RepoPattern() | RefPattern() | HostPattern():
            return value.text
        case Tier():
            return value.value
        case _:
            return str(value)


def _turned(change: Difference) -> Difference:
    """In a rule that denies, more of anything is narrower."""
    turned: dict[Direction, Direction] = {"wider": "narrower", "narrower": "wider"}
    return Difference(turned.get(change.direction, "other"), change.where, change.what)
