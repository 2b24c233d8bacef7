"""TLS towards upstreams, both ends in memory."""

import trustme
from OpenSSL import SSL

from broker.config.settings import UpstreamConfig
from broker.config.values import Address
from broker.upstream.route import trusting


def test_an_upstream_that_leaves_the_choice_to_us_is_spoken_to_in_the_cheapest_suite() -> None:
    authority = trustme.CA()
    theirs = SSL.Context(SSL.TLS_METHOD)
    authority.issue_cert("up.example").configure_cert(theirs)
    config = UpstreamConfig(
        "up", Address("up.example", 443), (), (authority.cert_pem.bytes(),), "vault", False
    )
    server = trusting(config, "up.example")
    client, upstream = server.connection(), SSL.Connection(theirs, None)
    upstream.set_accept_state()
    shake(client, upstream)
    assert server.verify(client) is None
    assert client.get_cipher_name() == "TLS_AES_128_GCM_SHA256"


def shake(client: SSL.Connection, server: SSL.Connection) -> None:
    for end, other in [(client, server), (server, client)] * 2:
        try:
            end.do_handshake()
        except SSL.WantReadError:
            pass
        other.bio_write(end.bio_read(1 << 16))
