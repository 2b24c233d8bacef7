"""An `[[egress]]` table, and a `[[test]]` about a host, to values and back."""

import re
from collections.abc import Sequence

from gitmoat.wire.hostname import Destination, parse_destination
from gitmoat.wire.malformed import Malformed
from netpolicy.format.key_rows import (
    EFFECT,
    EFFECTS,
    ID,
    Key,
    choice,
    flag,
    listed,
    patterns,
    read_keys,
    write_keys,
)
from netpolicy.format.reading import PolicyError, Table
from netpolicy.patterns.matchers import BadPattern, HostPattern
from netpolicy.policy import DEFAULT_METHODS, DEFAULT_PORTS, Effect, EgressRule, EgressTest, Scheme

SCHEMES: tuple[Scheme, ...] = ("tls", "http")
TESTS: dict[str, Scheme] = {"tunnel": "tls", "http": "http"}
_METHOD = re.compile(r"[A-Z]{1,16}")
_NEVER = ("CONNECT", "TRACE")


def _method(text: str) -> str:
    if _METHOD.fullmatch(text) is None or text in _NEVER:
        raise BadPattern("not a method that is passed on", "like GET, HEAD, POST; never CONNECT")
    return text


def _ports(table: Table, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    return table.numbers(key, default, 65535)


DENY_KEYS = (ID, EFFECT, patterns("hosts", HostPattern), Key("ports", _ports, list))
TLS_KEYS = (*DENY_KEYS, choice("scheme", SCHEMES), flag("allow_shared"), flag("allow_private"))
HTTP_KEYS = (*TLS_KEYS, listed("methods", _method))


def keys_of(effect: Effect, scheme: Scheme) -> Sequence[Key]:
    """The keys that have a meaning in such a rule."""
    if effect == "deny":
        return DENY_KEYS
    return HTTP_KEYS if scheme == "http" else TLS_KEYS


def read_rule(table: Table, number: int) -> EgressRule:
    effect = table.choice("effect", EFFECTS, "allow")
    denied = effect == "deny"
    scheme: Scheme = "tls" if denied else table.choice("scheme", SCHEMES, "tls")
    keys = keys_of(effect, scheme)
    _check_meaning(table, keys, "deny" if denied else scheme)
    defaults = {
        "id": f"egress-{number}",
        "ports": () if denied else (DEFAULT_PORTS[scheme],),
        "methods": DEFAULT_METHODS,
        "allow_shared": False,
        "allow_private": False,
    }
    rule = EgressRule(**read_keys(table, keys, defaults, effect=effect, scheme=scheme))
    table.close()
    if not rule.hosts:
        raise PolicyError(table.at("hosts"), "names no host")
    if not denied and not rule.ports:
        raise PolicyError(table.at("ports"), "names no port")
    if scheme == "http" and not denied and not rule.methods:
        raise PolicyError(table.at("methods"), "names no method")
    return rule


def _check_meaning(table: Table, keys: Sequence[Key], which: str) -> None:
    meant = {key.name for key in keys}
    for key in HTTP_KEYS:
        if key.name not in meant and table.has(key.name):
            hint = "what is inside TLS cannot be seen" if which == "tls" else ""
            raise PolicyError(table.at(key.name), f"has no meaning in a {which} rule", hint)


def write_rule(rule: EgressRule) -> dict[str, object]:
    return write_keys(keys_of(rule.effect, rule.scheme), rule)


def read_test(table: Table, expect: Effect) -> EgressTest:
    for key in ("who", "change"):
        if table.has(key):
            raise PolicyError(table.at(key), "has no meaning for a host")
    (key,) = (key for key in TESTS if table.has(key))
    return EgressTest(expect, table.parsed(key, _destination), TESTS[key])


def _destination(text: str) -> Destination:
    try:
        return parse_destination(text.encode())
    except Malformed as error:
        raise BadPattern(error.what, 'write "host.example:443"') from None


def write_test(test: EgressTest) -> dict[str, object]:
    (key,) = (key for key, scheme in TESTS.items() if scheme == test.scheme)
    return {"expect": test.expect, key: test.to.text}
