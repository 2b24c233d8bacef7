"""Self-signed certificates: the wrapping TLS needs around a raw Ed25519 key."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

# The key is the identity and sessions end by the broker's monotonic clock, so the dates say
# nothing: a wall clock that jumps must not cut or prolong anything.
_NOT_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gitmoat")])


def self_signed(seed: bytes) -> tuple[Ed25519PrivateKey, x509.Certificate]:
    """The private key of a 32-byte seed and a certificate for it; the same seed, the same pair."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(private.public_key())
        # RFC 5280, 4.1.2.2 wants serial numbers unique for an issuer; nobody looks ours up.
        .serial_number(1)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
    )
    return private, builder.sign(private, None)


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
