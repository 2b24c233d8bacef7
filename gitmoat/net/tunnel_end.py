"""One end of a tunnel: a connection on which no HTTP is spoken any more."""

from typing import Final, Protocol, cast

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.wire.http.heads import Piece

_BUSY: Final = "the other end is busy"


class TunnelUser(Protocol):
    """Who uses an end. `lost` is the last call, and always comes."""

    def data(self, octets: bytes) -> None: ...

    def ended(self) -> None:
        """The peer sends no more; it may still read."""

    def all_sent(self) -> None:
        """After `finish`: the kernel has all that was written, and our end behind it."""

    def lost(self, cleanly: bool) -> None: ...

    def flowed(self) -> None:
        """`blocked` has changed."""


class TunnelEnd:
    """Octets in, octets out. What happens before `attach` is told then."""

    def __init__(self, transport: Descriptor) -> None:
        self._transport = transport
        self._user: TunnelUser | None = None
        self._early: list[bytes] = []
        self._has_ended = False
        self._finished = False
        self._gone: bool | None = None

    @property
    def blocked(self) -> bool:
        return self._transport.blocked

    def attach(self, user: TunnelUser) -> None:
        self._user = user
        early, self._early = self._early, []
        self._transport.release(_BUSY)
        for octets in early:
            user.data(octets)
        if self._has_ended:
            user.ended()
        if self._gone is not None:
            user.lost(self._gone)

    def write(self, *pieces: Piece) -> None:
        self._transport.write(*pieces)

    def finish(self) -> None:
        """Our end, after all that was written; the peer may still send."""
        self._finished = True
        if self._has_ended:
            self._transport.loseConnection()
        elif self._gone is None:
            self._transport.loseWriteConnection()

    def abort(self) -> None:
        self._transport.abortConnection()

    def close(self) -> None:
        """In order where the kernel has all that was written; else by a reset."""
        if self._transport.queued:
            self.abort()
        else:
            self._transport.loseConnection()

    def hold(self) -> None:
        if self._gone is None:
            self._transport.hold(_BUSY)

    def release(self) -> None:
        self._transport.release(_BUSY)

    # What the connection tells

    def received(self, octets: bytes) -> None:
        if self._user is not None:
            self._user.data(octets)
            return
        # Before `attach` one delivery is kept; the next one is not read.
        self._early.append(octets)
        self.hold()

    def has_ended(self) -> None:
        self._has_ended = True
        if self._user is not None:
            self._user.ended()
        if self._finished:
            self._transport.loseConnection()

    def all_sent(self) -> None:
        if self._user is not None:
            self._user.all_sent()

    def was_lost(self, cleanly: bool) -> None:
        if self._gone is None:
            self._gone = cleanly
            if self._user is not None:
                self._user.lost(cleanly)

    def flowed(self) -> None:
        if self._user is not None:
            self._user.flowed()


@implementer(IHalfCloseableProtocol)
class TunnelConnection(TwistedProtocol):
    """A plain connection that is an end of a tunnel from its first octet."""

    def connectionMade(self) -> None:
        transport = cast(Descriptor, self.transport)
        self.end = TunnelEnd(transport)
        transport.on_flow = self.end.flowed

    def dataReceived(self, data: bytes) -> None:
        self.end.received(data)

    def readConnectionLost(self) -> None:
        self.end.has_ended()

    def writeConnectionLost(self) -> None:
        self.end.all_sent()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.end.was_lost(isinstance(reason.value, ConnectionDone))
