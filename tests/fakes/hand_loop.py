"""A reactor turned by hand: real sockets and our own transports, but a Clock for time."""

import select
import socket
from collections.abc import Callable
from typing import Any

from attrs import frozen
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableDescriptor
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.transport.tls import Tls

SMALL = 16 * 1024

_made: list[socket.socket] = []


class HandLoop(Clock):
    """Reads and writes only inside `settle`; `peak` is the most that transports held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()
        self.transports: list[Any] = []
        self.peak = 0

    def addReader(self, reader: Any) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.discard(reader)

    def addWriter(self, writer: Any) -> None:
        self.writers.add(writer)

    def removeWriter(self, writer: Any) -> None:
        self.writers.discard(writer)

    def settle(self, until: Callable[[], bool] | None = None) -> None:
        """Turn until nothing moves any more; with `until`, it must come true."""
        quiet = 0
        while quiet < 3:
            if until is not None and until():
                return
            quiet = 0 if self._turn() else quiet + 1
        assert until is None or until(), "settled without what was waited for"

    def connect(self, protocol: "Protocol | UnderTls", sock: socket.socket) -> Any:
        """What a reactor does with a connected socket."""
        made = protocol.connect(self, sock) if isinstance(protocol, UnderTls) else None
        transport = Descriptor(self, sock, protocol) if made is None else made
        self.transports.append(transport)
        transport.start()
        return transport

    @property
    def buffered(self) -> int:
        return sum(each.queued for each in self.transports)

    def _turn(self) -> bool:
        calls: list[Any] = list(self.getDelayedCalls())
        due = [each for each in calls if each.getTime() <= self.seconds()]
        self.advance(0)
        reading, writing = self._ready()
        for each in writing:
            self._do(each, each.doWrite, False)
        for each in reading:
            if each in self.readers:
                self._do(each, each.doRead, True)
        self.peak = max(self.peak, self.buffered)
        return bool(due or reading or writing)

    def _ready(self) -> tuple[list[Any], list[Any]]:
        """By poll: in a long run of tests, descriptors have numbers that select refuses."""
        poll = select.poll()
        by_number = {each.fileno(): each for each in (*self.readers, *self.writers)}
        for number, each in by_number.items():
            wanted = select.POLLIN if each in self.readers else 0
            poll.register(number, wanted | (select.POLLOUT if each in self.writers else 0))
        ready = [(by_number[number], events) for number, events in poll.poll(2)]
        over = select.POLLHUP | select.POLLERR | select.POLLNVAL
        reading = [it for it, events in ready if events & (select.POLLIN | over)]
        writing = [it for it, events in ready if events & (select.POLLOUT | over)]
        return (
            [each for each in reading if each in self.readers],
            [each for each in writing if each in self.writers],
        )

    def _do(self, selectable: Any, action: Callable[[], object], reading: bool) -> None:
        if selectable not in self.readers and selectable not in self.writers:
            return
        why = action()
        if why is None:
            return
        self.removeReader(selectable)
        half = IHalfCloseableDescriptor.providedBy(selectable)
        if reading and isinstance(why, ConnectionDone) and half:
            selectable.readConnectionLost(_failure(ConnectionDone()))
            return
        self.removeWriter(selectable)
        lost = ConnectionDone() if isinstance(why, ConnectionDone) else ConnectionLost()
        selectable.connectionLost(_failure(lost))


def _failure(error: Exception) -> Failure:
    return Failure(error)


def small_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected stream sockets that take little, so that back-pressure comes soon."""
    pair = socket.socketpair()
    _made.extend(pair)
    for each in pair:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    return pair


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection on loopback: these know FIN from RST."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    _made.extend((near, far))
    for each in (near, far):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def close_all() -> None:
    """Close every socket made here; for the end of a test."""
    while _made:
        _made.pop().close()


@frozen
class UnderTls:
    """A protocol to be connected inside TLS."""

    protocol: Protocol
    options: Any
    client: bool

    def connect(self, loop: Any, sock: socket.socket) -> Tls:
        connection = SSL.Connection(self.options.getContext(), None)
        if self.client:
            connection.set_connect_state()
        else:
            connection.set_accept_state()
        return Tls(loop, sock, self.protocol, connection)
