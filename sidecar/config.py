"""What hostd tells a new sidecar: one JSON document, read whole or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from attrs import frozen

from identity.keyfile import KeyMalformed, parse_public
from identity.peer import Means
from netpolicy.document import PolicyError, policy_from_mapping
from netpolicy.policy import Policy
from netpolicy.upstreams import UpstreamTable
from sidecar.budgets import EGRESS_LINKS

SCHEMA = "gitmoat.sidecar/1"
_KEYS = frozenset(
    {
        "schema",
        "sandbox",
        "session",
        "uids",
        "helper_cgroups",
        "peer",
        "broker_keys",
        "policy",
        "upstreams",
        "dial_cap",
        "egress_cap",
    }
)
_UIDS = frozenset({"sidecar", "helper", "untrusted"})
_LARGEST_CAP = 64


class Misconfigured(Exception):
    """hostd and this sidecar do not agree; `path` is the key at fault."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}" if path else what)
        self.path = path
        self.what = what


@frozen
class Uids:
    sidecar: int
    helper: int
    untrusted: int


@frozen
class Config:
    sandbox: str
    session: str
    uids: Uids
    helper_cgroups: frozenset[int] | None
    peer: Means
    broker_keys: frozenset[bytes]
    policy: Policy
    upstreams: UpstreamTable
    dial_cap: int
    egress_cap: int


def parse_config(raw: bytes) -> Config:
    data = _exactly(_json(raw), "", _KEYS)
    if data["schema"] != SCHEMA:
        raise Misconfigured("schema", "is not one this sidecar reads")
    return Config(
        sandbox=_text(data["sandbox"], "sandbox"),
        session=_text(data["session"], "session"),
        uids=_uids(data["uids"]),
        helper_cgroups=_cgroups(data["helper_cgroups"]),
        peer=_means(data["peer"]),
        broker_keys=_broker_keys(data["broker_keys"]),
        policy=_policy(data["policy"]),
        upstreams=_upstreams(data["upstreams"]),
        dial_cap=_number(data["dial_cap"], "dial_cap", 1, _LARGEST_CAP),
        egress_cap=_number(data["egress_cap"], "egress_cap", 1, EGRESS_LINKS),
    )


def parse_policy(raw: bytes) -> Policy:
    return _policy(_json(raw))


def _json(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise Misconfigured("", "not JSON") from None


def _exactly(value: object, path: str, keys: frozenset[str]) -> Mapping[str, object]:
    mapping = _mapping(value, path)
    for key in sorted(keys ^ mapping.keys()):
        at = f"{path}.{key}" if path else key
        raise Misconfigured(at, "is missing" if key in keys else "is unknown")
    return mapping


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Misconfigured(path, "is not an object")
    return cast(Mapping[str, object], value)


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 128 or not value.isprintable():
        raise Misconfigured(path, "is not a short text")
    return value


def _number(value: object, path: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Misconfigured(path, f"is not a number from {least} to {most}")
    return value


def _uids(value: object) -> Uids:
    data = _exactly(value, "uids", _UIDS)
    found = {name: _number(uid, f"uids.{name}", 1, 2**32 - 2) for name, uid in data.items()}
    if len(set(found.values())) != len(found):
        raise Misconfigured("uids", "are not three different ones")
    return Uids(**found)


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise Misconfigured(path, "is not a list with at least one element")
    return cast(list[object], value)


def _cgroups(value: object) -> frozenset[int] | None:
    if value is None:
        return None
    path = "helper_cgroups"
    return frozenset(_number(each, path, 1, 2**64 - 1) for each in _list(value, path))


def _means(value: object) -> Means:
    try:
        return Means(value)
    except ValueError:
        raise Misconfigured("peer", "is not a way to know a peer") from None


def _broker_keys(value: object) -> frozenset[bytes]:
    return frozenset(_key(each) for each in _list(value, "broker_keys"))


def _key(value: object) -> bytes:
    try:
        return parse_public(_text(value, "broker_keys"))
    except KeyMalformed:
        raise Misconfigured("broker_keys", "is not an Ed25519 public key") from None


def _policy(value: object) -> Policy:
    try:
        return policy_from_mapping(_mapping(value, "policy"))
    except PolicyError as error:
        raise Misconfigured(f"policy.{error.path}", error.what) from None


def _upstreams(value: object) -> UpstreamTable:
    try:
        return UpstreamTable.from_mapping(_mapping(value, "upstreams"))
    except PolicyError as error:
        raise Misconfigured(f"upstreams.{error.path}", error.what) from None
