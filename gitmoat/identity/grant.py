"""What a host signs for one session: who it is, where it runs, what it may do, for how long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import Attribute, field, fields, frozen
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

SCHEMA = "gitmoat.grant/1"
LIMIT = 256 * 1024
# The host key also signs TLS handshakes, whose signed content begins with 64 blanks (RFC 8446,
# 4.4.3); this prefix keeps the two kinds of signature apart.
_CONTEXT = b"gitmoat grant 1\n"
_SIGNATURE = 64
_INTEGER_LIMIT = 2**63  # what SQLite can hold
_TEXT_LIMIT = 255


class GrantRefused(Exception):
    """A signed grant is not to be believed."""

    def __init__(self, what: str, code: str = "S103") -> None:
        super().__init__(what)
        self.what = what
        self.code = code


def _text(grant: Grant, attribute: Attribute[Any], value: object) -> None:
    printable = isinstance(value, str) and value.isascii() and value.isprintable()
    if not printable or not 0 < len(str(value)) <= _TEXT_LIMIT:
        raise ValueError(f"{attribute.name} is not a short printable text")


def _text_or_none(grant: Grant, attribute: Attribute[Any], value: object) -> None:
    if value is not None:
        _text(grant, attribute, value)


def _number(grant: Grant, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or not 0 <= value < _INTEGER_LIMIT:
        raise ValueError(f"{attribute.name} is not a whole number in range")


def _key(grant: Grant, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, bytes) or len(value) != 32:
        raise ValueError(f"{attribute.name} is not a key of 32 bytes")


def _mapping(grant: Grant, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{attribute.name} is not a mapping")


@frozen(kw_only=True)
class Grant:
    host: str = field(validator=_text)
    boot_id: str = field(validator=_text)
    counter: int = field(validator=_number)
    session: str = field(validator=_text)
    key: bytes = field(validator=_key)  # the sidecar's public key
    sandbox: str = field(validator=_text)
    name: str = field(validator=_text)
    runtime: str = field(validator=_text)
    container: str | None = field(validator=_text_or_none)
    netns: int = field(validator=_number)
    epoch: int = field(validator=_number)
    scope: Mapping[str, Any] = field(validator=_mapping)  # the policy, as netpolicy maps it
    ttl: int = field(validator=_number)  # seconds from registration, by the broker's clock
    # Seconds since the sandbox's start, by its host's boot clock: a new sidecar is no new life.
    elapsed: int = field(default=0, validator=_number)
    issued: int = field(validator=_number)  # wall seconds; for people, never for a decision
    audience: str = field(validator=_text)  # the broker's public key as text


def encode_grant(grant: Grant) -> bytes:
    """The one spelling of a grant: sorted keys, no spaces, ASCII."""
    members: dict[str, Any] = {a.name: getattr(grant, a.name) for a in fields(Grant)}
    members |= {"schema": SCHEMA, "key": grant.key.hex()}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def sign_grant(grant: Grant, key: SigningKey) -> bytes:
    """Signature, then the encoded grant."""
    payload = encode_grant(grant)
    return key.sign(_CONTEXT + payload).signature + payload


def open_grant(signed: bytes, key: bytes, audience: str | None = None) -> Grant:
    """The grant that the host with public key `key` signed (for `audience`, if given)."""
    if not _SIGNATURE < len(signed) <= LIMIT:
        raise GrantRefused("the grant has an impossible size")
    signature, payload = signed[:_SIGNATURE], signed[_SIGNATURE:]
    try:
        VerifyKey(key).verify(_CONTEXT + payload, signature)
    except BadSignatureError:
        raise GrantRefused("the grant is not signed with this host's key") from None
    grant = _decode(payload)
    if audience is not None and grant.audience != audience:
        raise GrantRefused("the grant is for another broker")
    return grant


def _decode(payload: bytes) -> Grant:
    try:
        members = json.loads(payload.decode("ascii"))
        del members["schema"]  # what it said is part of the comparison below
        grant = Grant(**members | {"key": bytes.fromhex(members["key"])})
        # json takes the last of two equal keys and any spacing: only our own spelling is believed.
        if encode_grant(grant) != payload:
            raise ValueError("not the canonical spelling")
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise GrantRefused("the grant is signed but malformed") from problem
    return grant
