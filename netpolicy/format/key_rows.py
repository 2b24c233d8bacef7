"""The keys of a table, one row each: how a key is read, and how it is written.

Tables are read by these rows, written by them in their order, which is signed, and compared by
what they write. A new key is a field in `policy` and a row in its table, with `absent`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import evolve, frozen

from netpolicy.format.reading import Table
from netpolicy.format.units import format_duration, format_size, parse_duration, parse_size
from netpolicy.patterns.matchers import BadPattern
from netpolicy.policy import Effect, Tier
from netpolicy.presets.index_url import parse_index_url
from netpolicy.presets.names import GONE, PRESETS

EFFECTS: tuple[Effect, ...] = ("allow", "deny")
TIERS = [tier.value for tier in Tier]
_MONTH = 30 * 86400
_LARGEST = 1 << 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMED_ALREADY = ("id", "effect")  # by the rule's name

Direction = Literal["wider", "narrower", "other"]


WRITTEN: Final = object()


@frozen
class Key:
    """`read` gets the table, the key's name and its default; `write` makes text, a number, a flag
    or a list of a value.

    `absent` is the value of the key in a policy without it. A key with that value is not written:
    policies from before there was the key keep their digest, and a program from before reads every
    policy that does not use it. The keys of 0.2.0 are always written, as the digests of then have
    them; their defaults may change, that of a key with `absent` never.
    """

    name: str
    read: Callable[[Table, str, Any], Any]
    write: Callable[[Any], Any]
    absent: Any = WRITTEN

    def default(self, otherwise: Any) -> Any:
        return otherwise if self.absent is WRITTEN else self.absent

    def is_left_out(self, value: object) -> bool:
        return self.absent is not WRITTEN and bool(value == self.absent)


@frozen
class KeyChange:
    direction: Direction
    what: str


def read_keys(
    table: Table, keys: Sequence[Key], defaults: Mapping[str, object], **known: object
) -> dict[str, Any]:
    """The values of these keys by name; `known` are those that were read before."""
    unread = [key for key in keys if key.name not in known]
    return known | {
        key.name: key.read(table, key.name, key.default(defaults.get(key.name))) for key in unread
    }


def write_keys(keys: Sequence[Key], value: object) -> dict[str, Any]:
    """The value's fields as the mapping spells them."""
    values = [(key, getattr(value, key.name)) for key in keys]
    return {key.name: key.write(found) for key, found in values if not key.is_left_out(found)}


def compare_keys(
    keys: Sequence[Key], old: object, new: object, prefix: str = ""
) -> Iterator[KeyChange]:
    """As for a rule that allows: more of anything is wider."""
    for key in keys:
        before, after = (key.write(getattr(value, key.name)) for value in (old, new))
        name = prefix + key.name
        if key.name in _NAMED_ALREADY or before == after:
            continue
        if isinstance(before, list):
            yield from compare_lists(name, before, after)
        elif isinstance(before, bool):
            yield KeyChange(wider_if(after), f"{name} is now {str(after).lower()}")
        else:
            yield KeyChange("other", f"{name}: {before} is now {after}")


def compare_lists(
    name: str, before: Sequence[object], after: Sequence[object]
) -> Iterator[KeyChange]:
    for item in after:
        if item not in before:
            yield KeyChange("wider", f"{name}: {item} added")
    for item in before:
        if item not in after:
            yield KeyChange("narrower", f"{name}: {item} removed")


def wider_if(wider: bool) -> Direction:
    return "wider" if wider else "narrower"


def number(name: str, most: int) -> Key:
    return Key(name, lambda table, key, default: table.number(key, default, most), int)


def duration(name: str) -> Key:
    def read(table: Table, key: str, default: int) -> int:
        return table.quantity(key, parse_duration, default, _MONTH)

    return Key(name, read, format_duration)


def size(name: str) -> Key:
    def read(table: Table, key: str, default: int) -> int:
        return table.quantity(key, parse_size, default, _LARGEST)

    return Key(name, read, format_size)


def flag(name: str) -> Key:
    return Key(name, Table.flag, bool)


def choice(name: str, choices: Sequence[str]) -> Key:
    return Key(name, lambda table, key, default: table.choice(key, choices, default), str)


def listed(name: str, parse: Callable[[str], Any], write: Callable[[Any], str] = str) -> Key:
    """A list of texts, each parsed; without the key the default, or an empty list."""

    def read(table: Table, key: str, default: Any) -> Any:
        given = table.has(key)
        found = table.parsed_all(key, parse)
        return found if given or default is None else default

    return Key(name, read, lambda values: [write(value) for value in values])


def patterns(name: str, parse: Callable[[str], Any], prefix: str = "") -> Key:
    return listed(name, parse, lambda pattern: pattern.text.removeprefix(prefix))


def parse_name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise BadPattern("not a name", "at most 63 of A-Z a-z 0-9 . _ -, a letter or digit first")
    return text


def parse_tier(text: str) -> Tier:
    if text not in TIERS:
        raise BadPattern("not one of: " + ", ".join(TIERS))
    return Tier(text)


def _preset(text: str) -> str:
    if text not in (*PRESETS, *GONE):
        raise BadPattern("not a preset", "there are: " + ", ".join(PRESETS))
    return text


def _id(table: Table, key: str, default: str) -> str:
    return table.parsed(key, parse_name) if table.has(key) else table.text(key, default)


def _index(name: str) -> Key:
    def read(table: Table, key: str, default: str) -> str:
        return table.parsed(key, parse_index_url) if table.has(key) else table.text(key, default)

    return Key(name, read, str, absent="")


ID = Key("id", _id, str)
EFFECT = choice("effect", EFFECTS)

SESSION = (duration("ttl"), duration("idle"), duration("max_ttl"))
LIMITS = (
    number("git_requests_per_minute", 1_000_000),
    number("git_concurrency", 1000),
    size("push_max"),
    size("fetch_max"),
    size("session_max"),
    number("egress_connections", 10_000),
    number("egress_per_minute", 1_000_000),
    size("egress_max"),
    duration("egress_idle"),
    number("free_refusals", 1_000_000),
    # As many as one record of the audit takes.
    evolve(number("push_refs", 10_000), absent=4000),
)
PRESET = (listed("use", _preset),)
INDEX = tuple(_index(name) for name in ("pip", "npm", "go"))
