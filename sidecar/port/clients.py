"""Connections from the sandbox: HTTP at a port, or a ClientHello at a synthetic address.

Each has one exchange at a time, and ends it when its peer has left. The end of what a peer sends is
its leaving: there are no half-closed connections here.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from attrs import evolve, frozen
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gitmoat.net.http.incoming import Incoming
from gitmoat.net.http.server_end import ServerConnection
from gitmoat.net.timing import Timer, cancel
from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.tunnel_end import TunnelConnection, TunnelEnd
from gitmoat.net.tunnel_relay import OPENING
from gitmoat.wire.clienthello import hello_for
from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.formatting import format_response
from gitmoat.wire.http.heads import RequestReader
from gitmoat.wire.http.proxying import TunnelRequest
from gitmoat.wire.malformed import Malformed
from netpolicy.nftables import TLS
from sidecar.exchange import Context, Exchange, Pace
from sidecar.kind import AnyKind, Deny, Reply, Source
from sidecar.port.ports import Serve

_ESTABLISHED: Final = format_response(200, (), b"Connection established")


@frozen
class Door:
    """What a connection needs: the kinds of request at its listener, the last of which stands for
    what cannot be read, and what slows them down. `name_of` says what a synthetic address stands
    for, at a listener that has them."""

    context: Context
    source: Source
    pace: Pace
    kinds: Sequence[AnyKind]
    name_of: Callable[[bytes], HostName | None] | None = None

    def source_of(self, sock: socket.socket) -> Source | None:
        """None, and reported, at an address that stands for nothing."""
        if self.name_of is None:
            return self.source
        # The address that the client meant: every synthetic one is local.
        name = self.name_of(socket.inet_aton(sock.getsockname()[0]))
        if name is None:
            self._report_stray(sock)
            return None
        return evolve(self.source, host=name)

    def refused(self, refused: Deny) -> None:
        """Before there is an exchange."""
        self.context.report(self.kinds[-1].report(refused, self.source, None))

    def _report_stray(self, sock: socket.socket) -> None:
        """Unless the client has left already: it only probed the port."""
        try:
            left = sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except OSError:
            left = False
        if not left:
            self.refused(Deny("E101"))


def has_left(sock: socket.socket) -> bool:
    """Whether the peer has closed or reset, also behind octets that nobody has read yet."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))


@frozen(eq=False)
class _Asking:
    """The client of one request in HTTP."""

    incoming: Incoming

    def gone(self) -> bool:
        sock = cast(Any, self.incoming.peer).getHandle()
        return sock is None or has_left(sock)

    def reply(self, reply: Reply) -> None:
        self.incoming.reply(reply.status, reply.headers, reply.body, reply.close, reply.reason)

    def abort(self) -> None:
        self.incoming.abort()

    def tunnel(self) -> tuple[TunnelEnd, bytes]:
        return self.incoming.tunnel(_ESTABLISHED), b""


class HttpConnection(ServerConnection):
    """Becomes an end of a tunnel where that is what was asked for."""

    def __init__(
        self,
        door: Door,
        source: Source,
        reader: Callable[[], RequestReader],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(
            door.context.loop,
            self._requested,
            door.context.timeouts,
            on_malformed=lambda _: door.refused(door.kinds[-1].malformed),
            on_lost=on_lost,
            reader=reader,
        )
        self._door = door
        self._source = source
        self._running: Exchange | None = None

    def close(self) -> None:
        """At once where nothing runs; else in order, after it."""
        if self._running is None:
            cast(Descriptor, self.transport).loseConnection()
        else:
            super().close()

    def readConnectionLost(self) -> None:
        super().readConnectionLost()
        if self._running is not None and not self.tunnelled:
            self._running.cut()

    def _requested(self, incoming: Incoming) -> None:
        def ended() -> None:
            # The next, pipelined request may have begun inside the end of this one.
            if self._running is exchange:
                self._running = None

        kind, asked = self._classified(incoming)
        door = self._door
        exchange = Exchange(
            door.context, kind, asked, self._source, door.pace, _Asking(incoming), ended
        )
        self._running = exchange
        incoming.on_lost(exchange.cut)
        exchange.start()

    def _classified(self, incoming: Incoming) -> tuple[AnyKind, object]:
        for kind in self._door.kinds:
            asked = kind.classify(incoming.head, self._source)
            if asked is not None:
                return kind, asked
        return self._door.kinds[-1], self._door.kinds[-1].malformed


class TlsConnection(TunnelConnection):
    """Its ClientHello is read first, then a tunnel is asked for to the name behind the address."""

    incoming = None

    def __init__(self, door: Door, to: Destination, on_lost: Callable[[], None]) -> None:
        self._door = door
        self._to = to
        self._hello = hello_for(to.host)
        self._said = b""
        self._timer: Timer | None = None
        self._running: Exchange | None = None
        self._on_lost = on_lost

    def connectionMade(self) -> None:
        super().connectionMade()
        self._timer = self._door.context.loop.callLater(OPENING, self._not_opened)
        self.end.attach(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._on_lost()

    def close(self) -> None:
        self.abort()

    # As the user of its own end, until there is a tunnel

    def data(self, octets: bytes) -> None:
        if self._running is not None:
            # Early data: one delivery is kept, the next one is not read.
            self._said += octets
            self.end.hold()
            return
        try:
            hello = self._hello(octets)
        except Malformed:
            self._not_opened()
            return
        if hello is not None:
            cancel(self._timer)
            self._said = hello
            self._ask()

    def ended(self) -> None:
        self.abort()

    def all_sent(self) -> None:
        """Nothing is written before the tunnel is there."""

    def lost(self, cleanly: bool) -> None:
        cancel(self._timer)
        if self._running is not None:
            self._running.cut()

    def flowed(self) -> None:
        """Nothing is written before the tunnel is there."""

    def _ask(self) -> None:
        door = self._door
        self._running = Exchange(
            door.context,
            door.kinds[-1],
            TunnelRequest(self._to),
            door.source,
            door.pace,
            self,
            lambda: None,
        )
        self._running.start()

    def _not_opened(self) -> None:
        self._door.refused(Deny("E105", subject=self._to.text))
        self.abort()

    # As the client of its exchange

    def gone(self) -> bool:
        sock = cast(Any, self.transport).getHandle()
        return sock is None or has_left(sock)

    def reply(self, reply: Reply) -> None:
        """Nothing can be said here in a way the client would show: it sees a reset."""
        self.abort()

    def abort(self) -> None:
        cancel(self._timer)
        self.end.abort()
        if self._running is not None:
            self._running.cut()

    def tunnel(self) -> tuple[TunnelEnd, bytes]:
        said, self._said = self._said, b""
        self._hello = hello_for(self._to.host)  # the one that was read keeps all of it
        return self.end, said


def http_port(door: Door, reader: Callable[[], RequestReader] = RequestReader) -> Serve:
    def serve(sock: socket.socket, lost: Callable[[], None]) -> HttpConnection | None:
        source = door.source_of(sock)
        if source is None:
            return None
        connection = HttpConnection(door, source, reader, lost)
        # Raises OSError when the client has gone already.
        Descriptor(door.context.loop, sock, connection).start()
        return connection

    return serve


def tls_port(door: Door) -> Serve:
    def serve(sock: socket.socket, lost: Callable[[], None]) -> TlsConnection | None:
        source = door.source_of(sock)
        if source is None or source.host is None:
            return None
        connection = TlsConnection(door, Destination(source.host, TLS), lost)
        Descriptor(door.context.loop, sock, connection).start()
        return connection

    return serve
