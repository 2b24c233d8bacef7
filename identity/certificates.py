"""Self-signed certificates: the wrapping TLS needs around a raw Ed25519 key."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

# The key is the identity and sessions end by the broker's monotonic clock, so the dates say
# nothing: a wall clock that jumps must not cut or prolong anything.
_NOT_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_KEY = 32
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gitmoat")])


def _built(private: Ed25519PrivateKey) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
    )
    return builder.sign(private, None)


def _pattern() -> tuple[bytes, bytes, bytes]:
    """What is in every certificate before what is signed, there before the key, and behind it."""
    made = _built(Ed25519PrivateKey.from_private_bytes(bytes(_KEY)))
    whole, signed = made.public_bytes(Encoding.DER), made.tbs_certificate_bytes
    before, behind = whole.split(signed)
    return before, signed[:-_KEY], behind.removesuffix(made.signature)


_BEFORE, _SIGNED, _BEHIND = _pattern()


def self_signed(seed: bytes) -> tuple[Ed25519PrivateKey, x509.Certificate]:
    """The private key of a 32-byte seed and a certificate for it; the same seed, the same pair.

    Two of them differ in the key, which is the last that is signed, and in the signature alone.
    """
    private = Ed25519PrivateKey.from_private_bytes(seed)
    signed = _SIGNED + private.public_key().public_bytes_raw()
    whole = _BEFORE + signed + _BEHIND + private.sign(signed)
    return private, x509.load_der_x509_certificate(whole)


def public_key(seed: bytes) -> bytes:
    """The raw public key of a seed."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def key_of(certificate: x509.Certificate) -> bytes | None:
    """The raw Ed25519 public key a certificate carries; None if it carries another kind."""
    try:
        public = certificate.public_key()
    except ValueError:  # a key that cannot even be parsed
        return None
    return public.public_bytes_raw() if isinstance(public, Ed25519PublicKey) else None
