"""Grants: only what the host signed, in the one spelling, for the broker it names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from gitmoat.identity.grant import LIMIT, Grant, GrantRefused, encode_grant, open_grant, sign_grant

HOST = SigningKey(b"h" * 32)
PUBLIC = HOST.verify_key.encode()
GRANT = Grant(
    host="build-7",
    boot_id="6f0a0a3e-7d5c-4f4e-9a55-8f6f8a1f4c11",
    counter=1,
    session="s-1",
    key=b"k" * 32,
    sandbox="sb-1",
    name="calm-otter",
    runtime="bwrap",
    container=None,
    netns=4026532001,
    epoch=1,
    scope={"name": "agents", "git": [{"id": "app", "repos": ["github:acme/app"]}]},
    ttl=28800,
    issued=1_700_000_000,
    audience="A" * 43 + "=",
)
TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=255)
NUMBERS = st.integers(0, 2**63 - 1)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=10,
)
GRANTS = st.builds(
    Grant,
    host=TEXTS, boot_id=TEXTS, counter=NUMBERS, session=TEXTS,
    key=st.binary(min_size=32, max_size=32), sandbox=TEXTS, name=TEXTS, runtime=TEXTS,
    container=st.none() | TEXTS, netns=NUMBERS, epoch=NUMBERS,
    scope=st.dictionaries(st.text(max_size=9), JSON, max_size=4),
    ttl=NUMBERS, issued=NUMBERS, audience=TEXTS,
)  # fmt: skip


def resigned(payload: bytes) -> bytes:
    return HOST.sign(b"gitmoat grant 1\n" + payload).signature + payload


@settings(deadline=None)
@given(GRANTS)
def test_a_signed_grant_opens_to_the_same_grant(grant: Grant) -> None:
    assert open_grant(sign_grant(grant, HOST), PUBLIC) == grant
    assert open_grant(sign_grant(grant, HOST), PUBLIC, audience=grant.audience) == grant


@settings(deadline=None)
@given(st.data())
def test_any_changed_byte_is_refused(data: st.DataObject) -> None:
    signed = bytearray(sign_grant(GRANT, HOST))
    at = data.draw(st.integers(0, len(signed) - 1))
    signed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(GrantRefused) as refused:
        open_grant(bytes(signed), PUBLIC)
    assert refused.value.code == "S103"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_nobody_signed_are_refused(raw: bytes) -> None:
    with pytest.raises(GrantRefused):
        open_grant(raw, PUBLIC)


def test_another_hosts_signature_is_refused() -> None:
    with pytest.raises(GrantRefused, match="this host's key"):
        open_grant(sign_grant(GRANT, SigningKey(b"x" * 32)), PUBLIC)


def test_a_grant_for_another_broker_is_refused() -> None:
    with pytest.raises(GrantRefused, match="another broker"):
        open_grant(sign_grant(GRANT, HOST), PUBLIC, audience="B" * 43 + "=")


def test_a_signature_made_for_something_else_is_refused() -> None:
    payload = encode_grant(GRANT)
    with pytest.raises(GrantRefused):
        open_grant(HOST.sign(payload).signature + payload, PUBLIC)


def test_a_cut_or_oversized_grant_is_refused() -> None:
    signed = sign_grant(GRANT, HOST)
    for cut in (0, 1, 63, 64, len(signed) - 1):
        with pytest.raises(GrantRefused):
            open_grant(signed[:cut], PUBLIC)
    huge = sign_grant(evolve(GRANT, scope={"x": "y" * LIMIT}), HOST)
    with pytest.raises(GrantRefused, match="size"):
        open_grant(huge, PUBLIC)


MEMBERS = json.loads(encode_grant(GRANT))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "gitmoat.grant/2"}, {"extra": 1}, {"counter": -1}, {"counter": 2**63},
        {"counter": True}, {"counter": 1.0}, {"counter": "1"}, {"key": "6b" * 31},
        {"key": "6B" * 32}, {"key": "6b " * 32}, {"key": 1}, {"host": ""}, {"host": None},
        {"host": "a\nb"}, {"host": "é"}, {"host": "a" * 256}, {"container": ""}, {"scope": []},
        {"scope": None}, {"ttl": None}, {"audience": 5},
    ],
)  # fmt: skip
def test_a_signed_grant_with_odd_members_is_refused(change: dict[str, Any]) -> None:
    payload = json.dumps(MEMBERS | change, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(GrantRefused, match="malformed"):
        open_grant(resigned(payload), PUBLIC)


@pytest.mark.parametrize("missing", sorted(MEMBERS))
def test_a_signed_grant_that_lacks_a_member_is_refused(missing: str) -> None:
    rest = {name: value for name, value in MEMBERS.items() if name != missing}
    payload = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(GrantRefused, match="malformed"):
        open_grant(resigned(payload), PUBLIC)


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(MEMBERS).encode(),
        encode_grant(GRANT) + b"\n",
        encode_grant(GRANT).replace(b'"epoch":1', b'"epoch":1,"epoch":1'),
        encode_grant(GRANT).replace(b'"epoch":1', b'"epoch":01'),
        encode_grant(GRANT).replace(b'"epoch":1', b'"epoch":' + b"9" * 5000),
        encode_grant(GRANT).replace(b'"epoch":1', b'"epoch":NaN'),
        b"[" * 100_000, b"null", b"[]", b"\xff",
    ],
)  # fmt: skip
def test_a_second_spelling_of_a_grant_is_refused(payload: bytes) -> None:
    with pytest.raises(GrantRefused):
        open_grant(resigned(payload), PUBLIC)


def test_a_grant_with_impossible_values_cannot_be_made() -> None:
    for change in ({"counter": -1}, {"key": b"short"}, {"host": ""}, {"scope": "all"}):
        with pytest.raises(ValueError):
            evolve(GRANT, **change)
