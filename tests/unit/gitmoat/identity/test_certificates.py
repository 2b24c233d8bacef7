"""Certificates are nothing but a wrapping of the key."""

from __future__ import annotations

from datetime import UTC, datetime

import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509 import (
    Certificate,
    CertificateBuilder,
    Name,
    NameAttribute,
    Version,
    load_pem_x509_certificate,
)
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from gitmoat.identity.certificates import key_of, public_key, self_signed
from tests.fakes.examples import examples

SEEDS = st.binary(min_size=32, max_size=32)


@settings(max_examples=examples(30), deadline=None)
@given(SEEDS)
def test_the_key_that_goes_in_comes_out(seed: bytes) -> None:
    private, certificate = self_signed(seed)
    public = SigningKey(seed).verify_key.encode()
    assert key_of(certificate) == public == private.public_key().public_bytes_raw()
    private.public_key().verify(certificate.signature, certificate.tbs_certificate_bytes)


@settings(max_examples=examples(30), deadline=None)
@given(SEEDS)
def test_the_same_seed_makes_the_same_certificate(seed: bytes) -> None:
    assert self_signed(seed)[1] == self_signed(seed)[1]


def test_every_octet_of_it_is_what_the_library_makes() -> None:
    seed = b"k" * 32
    private, certificate = self_signed(seed)
    assert certificate == library_made(private)
    assert certificate.version is Version.v3
    assert public_key(seed) == private.public_key().public_bytes_raw()


def library_made(private: Ed25519PrivateKey) -> Certificate:
    name = Name([NameAttribute(NameOID.COMMON_NAME, "gitmoat")])
    return (
        CertificateBuilder(name, name, private.public_key(), 1)
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
        .sign(private, None)
    )


def test_another_kind_of_key_is_no_identity() -> None:
    issued = trustme.CA().issue_cert("gitmoat.example").cert_chain_pems[0].bytes()
    assert key_of(load_pem_x509_certificate(issued)) is None
