"""Names to addresses, addresses to connected sockets."""

import errno
import os
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.error import ConnectError, DNSLookupError, TimeoutError, getConnectError
from twisted.internet.interfaces import IWriteDescriptor
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.transport.seqpacket import Reactor

# An address that does not answer costs this long before the next one is tried beside it (RFC 8305,
# section 5 proposes 0.25 s). The addresses stay in the order in which they were found: that of the
# resolver (RFC 6724), in which families are not interleaved as section 4 would have it.
_HEAD_START: Final = 0.3

Address = IPv4Address | IPv6Address

# Who waits for which name, by reactor.
_asking: Final[dict[tuple[int, str], list[Deferred[list[Address]]]]] = {}


async def dial(reactor: Any, host: str, port: int, seconds: float) -> socket.socket:
    """A connection to a name or an address; raises ConnectError or DNSLookupError."""
    try:
        found = await resolve(reactor, host).addTimeout(seconds, reactor)
    except TimedOut:
        raise DNSLookupError("the resolver does not answer") from None
    if not found:
        raise DNSLookupError(f"{host} has no address")
    return await connect(reactor, found, port, seconds)


def resolve(reactor: Any, host: str) -> Deferred[list[Address]]:
    """What this machine finds for a name; an address stands for itself.

    Each name is looked up once at a time: a resolver that is silent about one holds up one thread,
    however many ask for it, and the others are there for other names.
    """
    key = (id(reactor), host)
    wanted: Deferred[list[Address]] = Deferred(lambda gone: _leave(key, gone))
    if key in _asking:
        _asking[key].append(wanted)
        return wanted
    _asking[key] = [wanted]
    # Not the reactor's own resolver: that one never answers where getaddrinfo fails for want of a
    # descriptor or of memory. And where no thread can be had, the pool raises.
    asking = maybeDeferred(deferToThreadPool, reactor, reactor.getThreadPool(), _look_up, host)
    asking.addBoth(_answered, key)
    return wanted


def _look_up(host: str) -> list[Address]:
    """In a thread. There is nothing to cancel: getaddrinfo ends when it ends."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        return []
    return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))


def _answered(found: list[Address] | Failure, key: tuple[int, str]) -> None:
    """For all who wait. The next one who asks begins anew, also after a failure."""
    for wanted in _asking.pop(key):
        if isinstance(found, Failure):
            wanted.errback(DNSLookupError(f"the resolver failed: {found.getErrorMessage()}"))
        else:
            wanted.callback(list(found))


def _leave(key: tuple[int, str], gone: Deferred[list[Address]]) -> None:
    waiting = _asking.get(key, [])
    if gone in waiting:
        waiting.remove(gone)


def connect(
    loop: Reactor, addresses: Sequence[Address], port: int, seconds: float
) -> Deferred[socket.socket]:
    """The first of `addresses` that answers, tried in their order; fails with ConnectError.

    The caller owns the socket. Cancel the Deferred when it is not wanted any more.
    """
    return _Race(loop, list(addresses), port).start(seconds)


@define(eq=False)
class _Race:
    _loop: Reactor
    _left: list[Address]
    _port: int
    _running: "set[_Attempt]" = field(factory=set, init=False)
    _timers: list[Any] = field(factory=list, init=False)
    _why: Exception = field(factory=lambda: ConnectError(string="no address"), init=False)
    _done: Deferred[socket.socket] = field(init=False)

    def start(self, seconds: float) -> Deferred[socket.socket]:
        self._done = Deferred(lambda _: self._end())
        self._timers.append(self._loop.callLater(seconds, self._too_late))
        self._next()
        return self._done

    def _next(self) -> None:
        while self._left and not self._done.called:
            attempt = _Attempt(self, self._loop)
            if attempt.start(self._left.pop(0), self._port):
                self._running.add(attempt)
                if self._left:
                    self._timers.append(self._loop.callLater(_HEAD_START, self._next))
                return
        if not self._running and not self._done.called:
            self._fail(self._why)

    def connected(self, attempt: "_Attempt", sock: socket.socket) -> None:
        self._running.discard(attempt)
        self._end()
        self._done.callback(sock)

    def failed(self, attempt: "_Attempt", error: OSError) -> None:
        self._running.discard(attempt)
        self._why = getConnectError((error.errno or 0, error.strerror or ""))
        if attempt.started:
            self._next()

    def _too_late(self) -> None:
        self._fail(TimeoutError())

    def _fail(self, why: Exception) -> None:
        self._end()
        self._done.errback(Failure(why))

    def _end(self) -> None:
        for timer in self._timers:
            if timer.active():
                timer.cancel()
        for attempt in self._running:
            attempt.give_up()
        self._running.clear()


@implementer(IWriteDescriptor)
class _Attempt:
    """One connect(2) under way."""

    def __init__(self, race: _Race, loop: Reactor) -> None:
        self._race = race
        self._loop = loop
        self._sock: socket.socket | None = None
        self.started = False

    def start(self, address: Address, port: int) -> bool:
        """Whether it is under way; if not, the race has been told."""
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        try:
            self._sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self._sock.connect((str(address), port))
        except BlockingIOError:
            pass
        except OSError as error:
            self.give_up()
            self._race.failed(self, error)
            return False
        self._loop.addWriter(self)
        self.started = True
        return True

    def give_up(self) -> None:
        if self._sock is not None:
            self._loop.removeWriter(self)
            self._sock.close()
            self._sock = None

    def fileno(self) -> int:
        return -1 if self._sock is None else self._sock.fileno()

    def logPrefix(self) -> str:
        return "connecting"

    def doWrite(self) -> None:
        sock = self._sock
        if sock is None:
            return
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self.give_up()
            self._race.failed(self, OSError(number, os.strerror(number)))
            return
        self._loop.removeWriter(self)
        self._sock = None
        self._race.connected(self, sock)

    def connectionLost(self, reason: Failure) -> None:
        """The reactor saw the connection fail before we did."""
        sock = self._sock
        if sock is not None:
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or errno.ECONNREFUSED
            self.give_up()
            self._race.failed(self, OSError(number, os.strerror(number)))
