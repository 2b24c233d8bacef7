"""The ports for other hosts: the proxy, and the synthetic addresses' own :80 and :443."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

from attrs import define, field
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gitwire.clienthello import hello_for
from gitwire.errors import Malformed
from gitwire.hostname import Destination, HostName
from gitwire.http import RequestReader
from gitwire.proxying import ProxyReader, classify_direct, classify_proxy
from netpolicy.decision import Deny
from netpolicy.nftables import TLS
from sidecar.egress_exchanges import Classify, EgressExchange, Joined
from sidecar.egress_office import EgressOffice, OpenTunnel
from sidecar.ports import Serve
from sidecar.synthetic import SyntheticAddresses
from streams.descriptor import Descriptor
from streams.incoming import Incoming
from streams.raw import Raw, RawConnection
from streams.server import ServerConnection
from streams.timing import Timer, cancel
from streams.tunnel import OPENING
from streams.wire import Transport


@define(eq=False)
class _Client:
    """One connection from the sandbox; a tunnel has no end of its own to wait for."""

    _connection: ServerConnection | RawConnection

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        cast(Transport, self._connection.transport).abortConnection()


def proxy_port(office: EgressOffice) -> Serve:
    def serve(sock: socket.socket, lost: Callable[[], None]) -> _Client:
        made = _http(office, lost, ProxyReader, lambda incoming: classify_proxy(incoming.head))
        return _started(office, sock, made)

    return serve


def plain_port(office: EgressOffice, addresses: SyntheticAddresses) -> Serve:
    """:80 of the synthetic addresses."""

    def serve(sock: socket.socket, lost: Callable[[], None]) -> _Client | None:
        name = _name_at(sock, addresses)
        if name is None:
            _report_stray(office, sock, "http")
            return None
        known = name

        def classify(incoming: Incoming) -> Any:
            return classify_direct(incoming.head, known)

        return _started(office, sock, _http(office, lost, RequestReader, classify))

    return serve


def tls_port(office: EgressOffice, addresses: SyntheticAddresses) -> Serve:
    """:443 of the synthetic addresses."""

    def serve(sock: socket.socket, lost: Callable[[], None]) -> _Client | None:
        name = _name_at(sock, addresses)
        if name is None:
            _report_stray(office, sock, "tunnel")
            return None
        return _started(office, sock, _TransparentTls(office, name, lost))

    return serve


def _started(
    office: EgressOffice, sock: socket.socket, connection: ServerConnection | RawConnection
) -> _Client:
    Descriptor(office.loop, sock, connection).start()
    return _Client(connection)


def _name_at(sock: socket.socket, addresses: SyntheticAddresses) -> HostName | None:
    """The address the client meant: every synthetic one is local, and none is only one's own."""
    return addresses.name_of(socket.inet_aton(sock.getsockname()[0]))


def _report_stray(office: EgressOffice, sock: socket.socket, op: str) -> None:
    """An address that stands for nothing. Who has left already was a probe of the port."""
    try:
        left = sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except OSError:
        left = False
    if not left:
        office.refused(op, "E101", None)


def _http(
    office: EgressOffice,
    lost: Callable[[], None],
    reader: Callable[[], RequestReader],
    classify: Classify,
) -> ServerConnection:
    return ServerConnection(
        office.loop,
        lambda incoming: EgressExchange(office, incoming, classify).start(),
        office.timeouts,
        on_malformed=lambda _: office.refused("http", "E111", None),
        on_lost=lost,
        reader=reader,
    )


class _TransparentTls(RawConnection):
    """Reads the ClientHello before anything else happens, then asks for the tunnel."""

    def __init__(self, office: EgressOffice, name: HostName, lost: Callable[[], None]) -> None:
        self._asking = _Asking(office, name)
        self._on_lost = lost

    def connectionMade(self) -> None:
        super().connectionMade()
        self._asking.start(self.raw)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._on_lost()


@define(eq=False)
class _Asking:
    """The user of a client's end until its tunnel is there."""

    _office: EgressOffice
    _name: HostName
    _raw: Raw = field(init=False)
    _timer: Timer | None = field(default=None, init=False)
    _opening: OpenTunnel | None = field(default=None, init=False)
    _hello: Any = field(init=False)

    @property
    def _to(self) -> Destination:
        return Destination(self._name, TLS)

    def start(self, raw: Raw) -> None:
        self._raw = raw
        self._hello = hello_for(self._name)
        self._timer = self._office.loop.callLater(OPENING, self._refuse, "E105")
        raw.attach(self)

    def data(self, octets: bytes) -> None:
        if self._opening is not None:  # came before the hold took effect
            self._refuse("E105")
            return
        try:
            hello = self._hello(octets)
        except Malformed:
            self._refuse("E105")
            return
        if hello is not None:
            cancel(self._timer)
            self._raw.hold()
            self._ask(hello)

    def _ask(self, hello: bytes) -> None:
        verdict = self._office.decide_tunnel(self._to)
        if isinstance(verdict, Deny):
            self._refuse(verdict.code)
            return
        request_id = self._office.new_id()

        def opened(upstream: Raw) -> None:
            Joined(self._office, self._to, request_id).start(self._raw, upstream, None, hello)

        self._opening = OpenTunnel(
            self._office, self._to, request_id, opened, lambda _: self._raw.abort()
        )
        self._opening.start()

    def _refuse(self, code: str) -> None:
        """Nothing can be said here in a way the client would show: it sees a reset."""
        self._office.refused("tunnel", code, self._to.text)
        cancel(self._timer)
        self._raw.abort()

    def ended(self) -> None:
        self._raw.abort()

    def lost(self, cleanly: bool) -> None:
        cancel(self._timer)
        if self._opening is not None:
            self._opening.cancel()

    def flowed(self) -> None:
        """Nothing is written before the tunnel is there."""
