"""Two hops as in the product: plain in, TLS to the second, TLS to the upstream."""

from collections.abc import Callable
from functools import cache
from typing import Any

import trustme
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    trustRootFromCertificates,
)

from gitmoat.net.http.ends import ClientConnection, Incoming, ServerConnection, Timeouts
from gitmoat.net.relay import Outcome, Refuse, Relay
from gitmoat.wire.http.heads import Headers, NoBody, ResponseHead, format_request, framing_headers
from tests.fakes.hand_loop import HandLoop, UnderTls, small_pair
from tests.fakes.http_ends import Served


@cache
def server_options() -> Any:
    leaf = _authority().issue_cert("upstream.test")
    context: Any = CertificateOptions()
    leaf.configure_cert(context.getContext())
    return context


@cache
def client_options() -> Any:
    root = Certificate.loadPEM(_authority().cert_pem.bytes())
    return CertificateOptions(trustRoot=trustRootFromCertificates([root]))


@cache
def _authority() -> Any:
    return trustme.CA()


def same(head: ResponseHead) -> tuple[int, Headers] | Refuse:
    return head.status, ()


def join_over_tls(loop: HandLoop, client: Protocol, server: Protocol) -> tuple[Any, Any]:
    """Connect both and shake hands; return the transports below TLS."""
    near, far = small_pair()
    transports = (
        loop.connect(UnderTls(client, client_options(), True), near),
        loop.connect(UnderTls(server, server_options(), False), far),
    )
    loop.settle()
    return transports


class Chain:
    """A raw client, two relays, and an upstream whose requests `on_upstream` gets."""

    def __init__(
        self, on_upstream: Callable[[Incoming], None], timeouts: Timeouts | None = None
    ) -> None:
        self.loop = HandLoop()
        self.timeouts = Timeouts() if timeouts is None else timeouts
        self.outcomes: list[Outcome] = []
        self.second = self._client()
        self.upstream = self._server(on_upstream)
        self.upstream_transports = join_over_tls(self.loop, self.second, self.upstream)
        self.first = self._client()
        self.middle = self._server(lambda incoming: self._relay(incoming, self.second))
        self.middle_transports = join_over_tls(self.loop, self.first, self.middle)
        self.served = Served(lambda incoming: self._relay(incoming, self.first), loop=self.loop)
        self.client = self.served.client

    def _client(self) -> ClientConnection:
        return ClientConnection(self.loop, self.timeouts)

    def _server(self, on_request: Callable[[Incoming], None]) -> ServerConnection:
        return ServerConnection(self.loop, on_request, self.timeouts, secure=True)

    def _relay(self, incoming: Incoming, client: ClientConnection) -> None:
        framing = incoming.head.framing
        method = b"GET" if isinstance(framing, NoBody) else b"POST"
        head = format_request(method, b"/", [(b"Host", b"up"), *framing_headers(framing)])
        done: Deferred[Outcome] = Relay(incoming, client, head, framing, same).start()
        done.addCallback(self.outcomes.append)
