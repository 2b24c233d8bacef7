"""A policy document, TOML or the mapping inside a grant, to a Policy and back.

The mapping has the document's own shape: one parser reads both.
"""

import tomllib
from collections.abc import Mapping
from typing import Any

from attrs import asdict

from netpolicy.format.key_rows import EFFECTS, INDEX, LIMITS, PRESET, SESSION, parse_name, read_keys
from netpolicy.format.reading import PolicyError, Table, open_table
from netpolicy.format.writing import VERSION, policy_digest, policy_to_mapping
from netpolicy.policy import Limits, PackageIndexes, Policy, Session
from netpolicy.rule_kind import Kind, Rule, Test
from netpolicy.rule_kinds import KINDS

__all__ = [
    "PolicyError",
    "parse_policy",
    "policy_digest",
    "policy_from_mapping",
    "policy_to_mapping",
]

MAX_TEXT = 256 * 1024


def parse_policy(text: str) -> Policy:
    """Read a policy file's text; PolicyError names the key path of the first fault."""
    if len(text) > MAX_TEXT:
        raise PolicyError("", f"longer than {MAX_TEXT} characters")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError("", f"not TOML: {error}") from None
    except ValueError:  # of int(), which reads some thousand digits
        raise PolicyError("", "not TOML: a number has too many digits") from None
    except RecursionError:
        raise PolicyError("", "not TOML: nested too deeply") from None
    return policy_from_mapping(data)


def policy_from_mapping(data: Mapping[str, object]) -> Policy:
    table = open_table(data)
    _check_version(table)
    name = table.parsed("name", parse_name)
    session, limits = _session(table.table("session")), _limits(table.table("limits"))
    rules: dict[str, Any] = {kind.name: _rules(table, kind) for kind in KINDS}
    policy = Policy(
        name=name,
        session=session,
        limits=limits,
        **rules,
        presets=_presets(table.table("preset")),
        tests=tuple(map(_test, table.tables("test"))),
        index=_index(table.table("index")),
    )
    table.close()
    _check_ids(policy)
    return policy


def _check_version(table: Table) -> None:
    hint = f"write `version = {VERSION}`"
    if not table.has("version"):
        raise PolicyError("version", "is missing", hint)
    version = table.take("version")
    if type(version) is not int or version != VERSION:
        raise PolicyError("version", "is not one this program reads", hint)


def _rules(table: Table, kind: Kind[Any, Any]) -> tuple[Rule, ...]:
    return tuple(kind.read(rule, n) for n, rule in enumerate(table.tables(kind.name), 1))


def _check_ids(policy: Policy) -> None:
    seen: set[str] = set()
    for kind in KINDS:
        for index, rule in enumerate(kind.rules(policy)):
            if rule.id in seen:
                raise PolicyError(f"{kind.name}[{index}].id", "is used by another rule")
            seen.add(rule.id)


def _session(table: Table) -> Session:
    default = Session()
    values = read_keys(table, SESSION, asdict(default) | {"max_ttl": 0})
    table.close()
    longest = values["max_ttl"] or max(values["ttl"], default.max_ttl)
    if longest < values["ttl"]:
        raise PolicyError(table.at("max_ttl"), "is shorter than ttl")
    return Session(**values | {"max_ttl": longest})


def _limits(table: Table) -> Limits:
    values = read_keys(table, LIMITS, asdict(Limits()))
    table.close()
    return Limits(**values)


def _presets(table: Table) -> tuple[str, ...]:
    values = read_keys(table, PRESET, {})
    table.close()
    return tuple(values["use"])


def _index(table: Table) -> PackageIndexes:
    values = read_keys(table, INDEX, {})
    table.close()
    return PackageIndexes(**values)


def _test(table: Table) -> Test:
    expect = table.choice("expect", EFFECTS)
    asked = [kind for kind in KINDS for key in kind.test_keys if table.has(key)]
    if len(asked) != 1:
        known = ", ".join(key for kind in KINDS for key in kind.test_keys)
        raise PolicyError(table.path, f"must have one of: {known}")
    test: Test = asked[0].read_test(table, expect)
    table.close()
    return test
