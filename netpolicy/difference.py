"""Two policies compared, in words, each change marked: does it allow more, or less?

A change is called narrower only if nothing can be allowed by it that was not before.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from netpolicy.format.key_rows import (
    INDEX,
    LIMITS,
    SESSION,
    Direction,
    Key,
    KeyChange,
    compare_lists,
    wider_if,
)
from netpolicy.policy import Limits, Policy, Session
from netpolicy.rule_kind import Kind, Rule
from netpolicy.rule_kinds import KINDS


@frozen
class Difference:
    direction: Direction
    where: str
    what: str


def compare(before: Policy, after: Policy) -> list[Difference]:
    """What differs in `after`; the tests of a policy allow nothing and are not compared."""
    found = list(_numbers("session", SESSION, before.session, after.session))
    found += _numbers("limits", LIMITS, before.limits, after.limits)
    for kind in KINDS:
        found += _rules(kind, before, after)
    for change in compare_lists("use", before.presets, after.presets):
        found.append(_at("preset", change))
    for key in INDEX:
        old, new = getattr(before.index, key.name), getattr(after.index, key.name)
        if old != new:
            words = f"{old or 'its default'} is now {new or 'its default'}"
            found.append(Difference("other", f"index.{key.name}", words))
    if before.name != after.name:
        found.append(Difference("other", "name", f"{before.name} is now {after.name}"))
    return found


def _at(where: str, change: KeyChange) -> Difference:
    return Difference(change.direction, where, change.what)


def _numbers(
    where: str, keys: Sequence[Key], before: Session | Limits, after: Session | Limits
) -> Iterator[Difference]:
    for key in keys:
        old, new = getattr(before, key.name), getattr(after, key.name)
        if old != new:
            words = f"{key.write(old)} is now {key.write(new)}"
            yield Difference(wider_if(new > old), f"{where}.{key.name}", words)


def _rules(kind: Kind[Any, Any], before: Policy, after: Policy) -> Iterator[Difference]:
    """Rules are the same by their id; one whose effect changed is gone, and a new one is there."""
    old, new = (
        {(rule.id, rule.effect): rule for rule in kind.rules(each)} for each in (before, after)
    )
    for key, rule in old.items():
        if key not in new:
            words = f"gone: {kind.words(rule)}"
            yield Difference(wider_if(rule.effect == "deny"), _name(kind, rule), words)
    for key, rule in new.items():
        if key not in old:
            words = f"new: {kind.words(rule)}"
            yield Difference(wider_if(rule.effect == "allow"), _name(kind, rule), words)
        else:
            yield from _changes(kind, old[key], rule)


def _name(kind: Kind[Any, Any], rule: Rule) -> str:
    return f"{kind.name} rule {rule.id}" + (" (deny)" if rule.effect == "deny" else "")


def _changes(kind: Kind[Any, Any], old: Rule, new: Rule) -> Iterator[Difference]:
    where = _name(kind, new)
    if kind.is_whole(old) != kind.is_whole(new):
        # One of them denies everything because it lists nothing: a list that grew is not wider.
        words = f"was: {kind.words(old)}; is now: {kind.words(new)}"
        yield Difference("other", where, words)
        return
    for change in kind.changes(old, new):
        yield _at(where, _reversed(change) if new.effect == "deny" else change)


def _reversed(change: KeyChange) -> KeyChange:
    """In a rule that denies, more of anything is narrower."""
    reversed_direction: dict[Direction, Direction] = {"wider": "narrower", "narrower": "wider"}
    return KeyChange(reversed_direction.get(change.direction, "other"), change.what)
