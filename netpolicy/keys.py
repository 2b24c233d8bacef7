"""The keys of a policy document, one row each: how a key is read, and how it is written.

`document` reads by these rows, `writing` writes by them in their order, which is signed, and
`difference` compares what they write. A new key is a field in `policy` and a row here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from netpolicy.matchers import (
    BadPattern,
    HostPattern,
    parse_branch_pattern,
    parse_ref_pattern,
    parse_repo_pattern,
    parse_tag_pattern,
)
from netpolicy.policy import Effect, Scheme, Tier
from netpolicy.presets.names import PRESETS
from netpolicy.reading import Table
from netpolicy.units import format_duration, format_size, parse_duration, parse_size

EFFECTS: tuple[Effect, ...] = ("allow", "deny")
SCHEMES: tuple[Scheme, ...] = ("tls", "http")
TIERS = [tier.value for tier in Tier]
_MONTH = 30 * 86400
_LARGEST = 1 << 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_METHOD = re.compile(r"[A-Z]{1,16}")
_NEVER = ("CONNECT", "TRACE")


@frozen
class Key:
    """`read` gets the table, the key's name and its default; `write` makes text, a number, a flag
    or a list of a value."""

    name: str
    read: Callable[[Table, str, Any], Any]
    write: Callable[[Any], Any]


def read_keys(
    table: Table, keys: Sequence[Key], defaults: Mapping[str, object], **known: object
) -> dict[str, Any]:
    """The values of these keys by name; `known` are those that were read before."""
    unread = [key for key in keys if key.name not in known]
    return known | {key.name: key.read(table, key.name, defaults.get(key.name)) for key in unread}


def write_keys(keys: Sequence[Key], value: object) -> dict[str, Any]:
    """The value's fields as the mapping spells them."""
    return {key.name: key.write(getattr(value, key.name)) for key in keys}


def _number(name: str, most: int) -> Key:
    return Key(name, lambda table, key, default: table.number(key, default, most), int)


def _duration(name: str) -> Key:
    def read(table: Table, key: str, default: int) -> int:
        return table.quantity(key, parse_duration, default, _MONTH)

    return Key(name, read, format_duration)


def _size(name: str) -> Key:
    def read(table: Table, key: str, default: int) -> int:
        return table.quantity(key, parse_size, default, _LARGEST)

    return Key(name, read, format_size)


def _flag(name: str) -> Key:
    return Key(name, Table.flag, bool)


def _choice(name: str, choices: Sequence[str]) -> Key:
    return Key(name, lambda table, key, default: table.choice(key, choices, default), str)


def _listed(name: str, parse: Callable[[str], Any], write: Callable[[Any], str] = str) -> Key:
    """Parsed texts; the default, or else nothing, where the key is missing."""

    def read(table: Table, key: str, default: Any) -> Any:
        given = table.has(key)
        found = table.parsed_all(key, parse)
        return found if given or default is None else default

    return Key(name, read, lambda values: [write(value) for value in values])


def _patterns(name: str, parse: Callable[[str], Any], prefix: str = "") -> Key:
    return _listed(name, parse, lambda pattern: pattern.text.removeprefix(prefix))


def parse_name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise BadPattern("not a name", "at most 63 of A-Z a-z 0-9 . _ -, a letter or digit first")
    return text


def parse_tier(text: str) -> Tier:
    if text not in TIERS:
        raise BadPattern("not one of: " + ", ".join(TIERS))
    return Tier(text)


def _method(text: str) -> str:
    if _METHOD.fullmatch(text) is None or text in _NEVER:
        raise BadPattern("not a method that is passed on", "like GET, HEAD, POST; never CONNECT")
    return text


def _preset(text: str) -> str:
    if text not in PRESETS:
        raise BadPattern("not a preset", "there are: " + ", ".join(PRESETS))
    return text


def _id(table: Table, key: str, default: str) -> str:
    return table.parsed(key, parse_name) if table.has(key) else table.text(key, default)


def _ports(table: Table, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    return table.numbers(key, default, 65535)


_WHO = _listed("who", parse_tier)

ID = Key("id", _id, str)
EFFECT = _choice("effect", EFFECTS)
SCHEME = _choice("scheme", SCHEMES)

SESSION = (_duration("ttl"), _duration("idle"), _duration("max_ttl"))
LIMITS = (
    _number("git_requests_per_minute", 1_000_000),
    _number("git_concurrency", 1000),
    _size("push_max"),
    _size("fetch_max"),
    _size("session_max"),
    _number("egress_connections", 10_000),
    _number("egress_per_minute", 1_000_000),
    _size("egress_max"),
    _duration("egress_idle"),
    _number("free_refusals", 1_000_000),
)
GIT = (
    ID,
    EFFECT,
    _patterns("repos", parse_repo_pattern),
    _flag("fetch"),
    # Written in one order, however the file lists them.
    Key("who", _WHO.read, lambda who: [tier.value for tier in Tier if tier in who]),
)
PUSH = (
    _patterns("branches", parse_branch_pattern, "refs/heads/"),
    _patterns("tags", parse_tag_pattern, "refs/tags/"),
    _patterns("refs", parse_ref_pattern),
    _flag("create"),
    _flag("update"),
    _flag("delete"),
    _flag("workflows"),
    _flag("options"),
)
EGRESS_DENY = (ID, EFFECT, _patterns("hosts", HostPattern), Key("ports", _ports, list))
EGRESS_TLS = (*EGRESS_DENY, SCHEME, _flag("allow_shared"), _flag("allow_private"))
EGRESS_HTTP = (*EGRESS_TLS, _listed("methods", _method))
PRESET = (_listed("use", _preset),)


def egress_keys(effect: Effect, scheme: Scheme) -> Sequence[Key]:
    """The keys that have a meaning in such a rule."""
    if effect == "deny":
        return EGRESS_DENY
    return EGRESS_HTTP if scheme == "http" else EGRESS_TLS
