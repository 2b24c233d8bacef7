"""Certificates are nothing but a wrapping of the key."""

from __future__ import annotations

import trustme
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from identity.certificates import key_of, self_signed

SEEDS = st.binary(min_size=32, max_size=32)


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_the_key_that_goes_in_comes_out(seed: bytes) -> None:
    private, certificate = self_signed(seed)
    public = SigningKey(seed).verify_key.encode()
    assert key_of(certificate) == public == private.public_key().public_bytes_raw()
    private.public_key().verify(certificate.signature, certificate.tbs_certificate_bytes)


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_the_same_seed_makes_the_same_certificate(seed: bytes) -> None:
    assert self_signed(seed)[1] == self_signed(seed)[1]


def test_another_kind_of_key_is_no_identity() -> None:
    issued = trustme.CA().issue_cert("gitmoat.example").cert_chain_pems[0].bytes()
    assert key_of(load_pem_x509_certificate(issued)) is None
