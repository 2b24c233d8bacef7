"""TLS 1.3 between our own programs: both ends pinned by raw Ed25519 key, nothing resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

# pyOpenSSL imports this late, when a context gets its key; the sidecar cannot import by then.
from cryptography.hazmat.primitives import serialization as _serialization  # noqa: F401
from OpenSSL import SSL, crypto

from gitmoat.identity.certificates import key_of, self_signed

# By what they cost where the processor knows AES: the shorter key first.
SUITES = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
# One write makes all its records. OpenSSL's number; pyOpenSSL sets the mode but names it nowhere.
PARTIAL_WRITE = 0x1
_COMPLETE = b"SSL negotiation finished successfully"

# For clients only. A server's would hold the key of its tickets, the same in every fork.
_prepared: list[SSL.Context] = []

Pins = Callable[[], frozenset[bytes]]
Admit = Callable[[bytes], bool]


class PeerKeyUnknown(Exception):
    """A TLS transport has no verified Ed25519 peer (yet)."""


class _TlsTransport(Protocol):
    def getHandle(self) -> Any: ...  # an SSL.Connection; None when lost


class PinnedClient:
    """Makes client connections that go on only with a server whose key is in `pins()`."""

    def __init__(self, seed: bytes, pins: Pins) -> None:
        context = _prepared.pop() if _prepared else _nobody()
        self._context = _become(context, seed, lambda key: key in pins())

    def connection(self) -> SSL.Connection:
        connection = SSL.Connection(self._context, None)
        connection.set_connect_state()
        return connection


class PinnedServer:
    """Makes server connections that go on only with a client whose key `admit` accepts.

    `admit` may be asked more than once in one handshake.
    """

    def __init__(self, seed: bytes, admit: Admit) -> None:
        self._admit = admit
        self.use(seed)

    def use(self, seed: bytes) -> None:
        """From now on with this key; connections that are open go on with theirs."""
        self._context = _become(_nobody(), seed, self._admit)

    def connection(self) -> SSL.Connection:
        connection = SSL.Connection(self._context, None)
        connection.set_accept_state()
        return connection


def peer_key(transport: _TlsTransport) -> bytes:
    """The key the other end proved to hold; refused before the handshake is complete."""
    connection: SSL.Connection | None = transport.getHandle()
    # OpenSSL shows a certificate before CertificateVerify (RFC 8446, 4.4.3), which proves that the
    # peer holds its key.
    if connection is None or connection.get_state_string() != _COMPLETE:
        raise PeerKeyUnknown("the handshake is not complete")
    found = connection.get_peer_certificate()
    key = None if found is None else _key_shown(found)
    if key is None:
        raise PeerKeyUnknown("the peer has shown no Ed25519 key")
    return key


def prepare_client() -> None:
    """Make a context for the next client, which a fork later shares: all but its key and pins."""
    _prepared.append(_nobody())


def _nobody() -> SSL.Context:
    """One context for all connections; reads no file, so it can be made after a chroot."""
    context = SSL.Context(SSL.TLS_METHOD)
    context.clear_mode(PARTIAL_WRITE)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_max_proto_version(SSL.TLS1_3_VERSION)
    context.set_tls13_ciphersuites(SUITES)
    # A resumed session (RFC 8446, 2.2) would carry an identity past its revocation, because no
    # certificate is sent in it. Neither switch is trusted alone: SSL_OP_NO_TICKET has TLS 1.3 use
    # stateful tickets, out of the session cache (SSL_CTX_set_options(3)).
    context.set_options(SSL.OP_NO_TICKET)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    return context


def _become(context: SSL.Context, seed: bytes, admit: Admit) -> SSL.Context:
    private, certificate = self_signed(seed)
    context.use_privatekey(private)
    context.use_certificate(certificate)
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _verifier(admit))
    return context


def _verifier(admit: Admit) -> Callable[[SSL.Connection, crypto.X509, int, int, int], bool]:
    def verify(
        connection: SSL.Connection, shown: crypto.X509, problem: int, depth: int, ok: int
    ) -> bool:
        # Chain building, names and dates are OpenSSL's `problem`; the pinned key replaces them
        # all. A certificate above the leaf means a chain, which none of ours has.
        if depth != 0:
            return False
        key = _key_shown(shown)
        return key is not None and admit(key)

    return verify


def _key_shown(shown: crypto.X509) -> bytes | None:
    try:
        return key_of(shown.to_cryptography())
    except ValueError:  # OpenSSL reads some certificates that `cryptography` refuses
        return None
