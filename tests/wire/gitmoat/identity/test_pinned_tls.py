"""TLS between our programs: the right keys talk, everything else fails before it is heard."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from nacl.signing import SigningKey
from OpenSSL import SSL

from gitmoat.identity.certificates import self_signed
from gitmoat.identity.tls_options import (
    PeerKeyUnknown,
    PinnedClient,
    PinnedServer,
    peer_key,
    prepare_client,
)
from tests.fakes.tls import End, Stranger, Talker, join, write_pem

CLIENT, SERVER, OTHER = b"c" * 32, b"s" * 32, b"o" * 32
PAYLOAD = b"POST /git/ HTTP/1.1\r\n" + b"x" * 20_000


def public(seed: bytes) -> bytes:
    return SigningKey(seed).verify_key.encode()


def pinned_client(*pins: bytes, seed: bytes = CLIENT) -> PinnedClient:
    return PinnedClient(seed, lambda: frozenset(pins))


def admitting(*keys: bytes) -> PinnedServer:
    return PinnedServer(SERVER, lambda key: key in keys)


def test_the_right_keys_on_both_ends_talk_and_know_each_other() -> None:
    client = End(pinned_client(public(SERVER)), Talker(b"question"))
    server = End(admitting(public(CLIENT)), Talker(b"answer"))
    join(client, server)
    assert (server.talker.heard, client.talker.heard) == (b"question", b"answer")
    assert peer_key(server.tls) == public(CLIENT)
    assert peer_key(client.tls) == public(SERVER)
    assert client.talker.lost is None and server.talker.lost is None


def test_a_client_that_was_prepared_has_its_own_key_and_pins_and_is_prepared_once() -> None:
    prepare_client()
    for seed in (CLIENT, OTHER):
        client = End(pinned_client(public(SERVER), seed=seed), Talker(b"question"))
        server = End(admitting(public(seed)), Talker(b"answer"))
        join(client, server)
        assert peer_key(server.tls) == public(seed)
        assert client.talker.heard == b"answer"


def test_a_second_pin_is_honoured_while_keys_rotate() -> None:
    pins = {public(OTHER)}
    creator = PinnedClient(CLIENT, lambda: frozenset(pins))
    pins.add(public(SERVER))
    client, server = End(creator, Talker(b"hello")), End(admitting(public(CLIENT)), Talker())
    join(client, server)
    assert server.talker.heard == b"hello"


def test_a_wrong_server_key_ends_the_handshake_and_no_application_data_is_sent() -> None:
    client = End(pinned_client(public(OTHER)), Talker(PAYLOAD))
    server = End(admitting(public(CLIENT)), Talker())
    join(client, server)
    assert server.talker.heard == b""
    assert client.sent < len(PAYLOAD) // 2  # a hello and an alert
    assert client.talker.lost_to is SSL.Error
    with pytest.raises(PeerKeyUnknown):
        peer_key(server.tls)


def test_no_pin_at_all_trusts_nobody() -> None:
    client, server = End(pinned_client(), Talker(PAYLOAD)), End(admitting(public(CLIENT)), Talker())
    join(client, server)
    assert server.talker.heard == b"" and client.talker.lost is not None


def test_a_client_with_an_unknown_key_is_not_heard() -> None:
    client = End(pinned_client(public(SERVER), seed=OTHER), Talker(PAYLOAD))
    server = End(admitting(public(CLIENT)), Talker(b"secret"))
    join(client, server)
    assert server.talker.heard == b"" and client.talker.heard == b""
    assert server.talker.lost_to is SSL.Error
    assert client.talker.lost is not None


def test_a_key_is_asked_for_again_at_every_connection() -> None:
    admitted = {public(CLIENT)}
    creator = PinnedServer(SERVER, lambda key: key in admitted)
    for expected in (b"hello", b""):
        client = End(pinned_client(public(SERVER)), Talker(b"hello"))
        server = End(creator, Talker())
        join(client, server)
        assert server.talker.heard == expected
        admitted.clear()  # revoked


def stranger_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ours(tmp_path: Path) -> ssl.SSLContext:
    context = stranger_context()
    context.load_cert_chain(write_pem(tmp_path, *self_signed(CLIENT)))
    return context


def anybody() -> PinnedServer:
    return PinnedServer(SERVER, lambda key: True)


def test_the_stranger_gets_through_with_the_right_key(tmp_path: Path) -> None:
    stranger = Stranger(ours(tmp_path), admitting(public(CLIENT)))
    stranger.shake()
    stranger.server.send(b"hello")
    assert stranger.hear() == b"hello"


def test_a_client_without_a_certificate_fails() -> None:
    stranger = Stranger(stranger_context(), anybody())
    with pytest.raises(SSL.Error):
        stranger.shake()


def test_a_client_with_another_kind_of_key_fails(tmp_path: Path) -> None:
    context = stranger_context()
    trustme.CA().issue_cert("gitmoat.example").configure_cert(context)
    with pytest.raises(SSL.Error):
        Stranger(context, anybody()).shake()


def test_tls_1_2_fails(tmp_path: Path) -> None:
    context = ours(tmp_path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(SSL.Error):
        Stranger(context, anybody()).shake()


def test_a_second_connection_does_not_resume_the_first(tmp_path: Path) -> None:
    context, server = ours(tmp_path), anybody()
    session = None
    for _ in range(3):
        stranger = Stranger(context, server, session)
        stranger.shake()
        stranger.server.send(b"hello")
        assert stranger.hear() == b"hello"
        assert stranger.client.session_reused is False
        session = stranger.client.session


def test_a_session_of_an_admitted_client_does_not_carry_a_revoked_one_in(tmp_path: Path) -> None:
    admitted = {public(CLIENT)}
    server = PinnedServer(SERVER, lambda key: key in admitted)
    context = ours(tmp_path)
    first = Stranger(context, server)
    first.shake()
    first.server.send(b"hello")
    first.hear()
    admitted.clear()
    with pytest.raises(SSL.Error):
        Stranger(context, server, first.client.session).shake()


def test_a_certificate_signed_by_an_admitted_key_is_not_that_key(tmp_path: Path) -> None:
    """A chain ends in the admitted key, but its leaf is another: no chain is ever accepted."""
    signer, above = self_signed(CLIENT)
    leaf_key, leaf = self_signed(OTHER)
    signed = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "leaf")]))
        .issuer_name(above.subject)
        .public_key(leaf_key.public_key())
        .serial_number(2)
        .not_valid_before(leaf.not_valid_before_utc)
        .not_valid_after(leaf.not_valid_after_utc)
        .sign(signer, None)
    )
    path = write_pem(tmp_path, leaf_key, signed)
    path.write_bytes(path.read_bytes() + above.public_bytes(Encoding.PEM))
    context = stranger_context()
    context.load_cert_chain(path)
    with pytest.raises(SSL.Error):
        Stranger(context, admitting(public(CLIENT))).shake()
    with pytest.raises(SSL.Error):
        Stranger(context, admitting(public(CLIENT), public(OTHER))).shake()


def told_key(end: End) -> bytes | None:
    try:
        return peer_key(end.tls)
    except PeerKeyUnknown:
        return None


def test_the_key_of_a_peer_is_not_told_before_the_peer_has_proved_it() -> None:
    client = End(pinned_client(public(SERVER)), Talker())
    server = End(admitting(public(CLIENT)), Talker())
    client.start()
    server.start()
    server.give(client.take())
    client.give(server.take())
    proof = client.take()  # certificate, signature, finished
    shown = []
    for at in range(len(proof)):
        shown.append((server.tls.getPeerCertificate() is not None, told_key(server)))
        server.give(proof[at : at + 1])
    assert (True, None) in shown  # OpenSSL already has the certificate; we say nothing yet
    assert {key for _, key in shown} == {None}
    assert told_key(server) == public(CLIENT)


def test_an_admission_that_fails_admits_nobody(tmp_path: Path) -> None:
    def broken(key: bytes) -> bool:
        raise RuntimeError("the store is down")

    with pytest.raises(RuntimeError):
        Stranger(ours(tmp_path), PinnedServer(SERVER, broken)).shake()
