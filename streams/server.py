"""The server's end of an HTTP/1.1 connection: one exchange at a time, in order."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum, auto
from typing import Final, assert_never

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gitwire.errors import Malformed
from gitwire.http import Length, Piece, RequestReader, format_response, framing_headers
from streams.causes import Cause, Why
from streams.incoming import Incoming
from streams.raw import Raw
from streams.timing import Alarm, Clock, Timeouts
from streams.wire import Wire

_INBOX: Final = "bytes are waiting"
_DEFAULT: Final = Timeouts()


class Phase(Enum):
    SHAKING = auto()  # TLS
    WAITING = auto()  # for the first byte of a request
    HEAD = auto()
    EXCHANGE = auto()
    TUNNEL = auto()  # no HTTP is spoken here any more
    ENDING = auto()  # we have said all; the peer's bytes are dropped
    GONE = auto()


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class ServerConnection(Protocol):
    """Calls `on_request` for each request; anything malformed gets one answer and the end."""

    def __init__(
        self,
        clock: Clock,
        on_request: Callable[[Incoming], None],
        timeouts: Timeouts = _DEFAULT,
        secure: bool = False,
        on_malformed: Callable[[Malformed], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        reader: Callable[[], RequestReader] = RequestReader,
    ) -> None:
        self._clock = clock
        self._new_reader = reader
        self._raw: Raw | None = None
        self._on_request = on_request
        self._timeouts = timeouts
        self._patience = timeouts.idle + timeouts.grace
        self._secure = secure
        self._on_malformed = on_malformed
        self._on_lost = on_lost
        self._alarm = Alarm(clock, self._ring)
        self._drain = Alarm(clock, self._end)
        self._phase = Phase.WAITING
        self._reader = reader()
        self._exchange: Incoming | None = None
        self._pumping = False
        self._unwanted = False
        self._eof = False
        self.inbox: deque[bytes] = deque()

    def abort(self) -> None:
        """Cut the connection and whatever runs on it."""
        self._cut(Why(Cause.CUT))

    def close(self) -> None:
        """Take no further request; close in order, after the exchange or handshake under way."""
        if self._phase is Phase.SHAKING:
            self._unwanted = True
        elif self._exchange is not None:
            self._exchange.closes = True
            self.settle()
        elif not self.tunnelled and self._phase is not Phase.GONE:
            self._end()

    @property
    def tunnelled(self) -> bool:
        return self._raw is not None

    @property
    def peer(self) -> object:
        return self.transport

    # Twisted's callbacks

    def connectionMade(self) -> None:
        self._wire = Wire(self.transport, self._secure, self._flow)
        if self._secure:
            self._enter(Phase.SHAKING, self._timeouts.head)
        else:
            self._enter(Phase.WAITING, self._timeouts.wait)

    def handshakeCompleted(self) -> None:
        if self._phase is Phase.SHAKING:
            self._enter(Phase.WAITING, self._timeouts.wait)
            if self._unwanted:
                self._end()

    def dataReceived(self, data: bytes) -> None:
        if self._raw is not None:
            self._raw.received(data)
            return
        self.inbox.append(data)
        self.pump()

    def readConnectionLost(self) -> None:
        self._eof = True
        self._wire.ended()
        if self._raw is not None:
            self._raw.has_ended()
            return
        self.pump()

    def writeConnectionLost(self) -> None:
        if self._raw is None:
            self._alarm.set(self._timeouts.linger)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._wire.lost()
        self._stop(Why(Cause.LOST))
        if self._raw is not None:
            self._raw.was_lost(isinstance(reason.value, ConnectionDone))
        if self._on_lost is not None:
            self._on_lost()

    # What an exchange asks of us

    @property
    def blocked(self) -> bool:
        return self._wire.blocked

    def put(self, pieces: Sequence[Piece]) -> None:
        self.progress()
        self._wire.write(pieces)

    def hold(self, reason: Hashable) -> None:
        self._wire.hold(reason)

    def release(self, reason: Hashable) -> None:
        self._wire.release(reason)

    def progress(self) -> None:
        if self._phase is Phase.EXCHANGE:
            self._alarm.set(self._patience)

    def switch(self, head: bytes) -> Raw:
        """Say the last HTTP that is said here; from then on this is an end of a tunnel."""
        self._exchange = None
        self._phase = Phase.TUNNEL
        self._alarm.clear()
        self._drain.clear()
        self._raw = raw = Raw(self._wire)
        self._wire.write([head])
        self._wire.release_all()
        early = b"".join(self.inbox)
        self.inbox.clear()
        if early:
            raw.received(early)
        if self._eof:
            raw.has_ended()
        return raw

    def pump(self) -> None:
        """Use what has arrived, as far as it can be used now."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.inbox and self._step():
                pass
        finally:
            self._pumping = False
        if self.inbox:
            self._wire.hold(_INBOX)
            return
        if self._wire.held:
            self._wire.release(_INBOX)
        if self._eof:
            self._at_eof()

    def settle(self) -> None:
        """Go on to the next request, or to the end, once this one is answered and read."""
        exchange = self._exchange
        if exchange is None or not exchange.answered:
            return
        if exchange.closes:
            self._end()
        elif exchange.body_ended:
            self._exchange = None
            self._drain.clear()
            self._reader = self._new_reader()
            self._enter(Phase.WAITING, self._timeouts.wait)
            if self.inbox or self._eof:
                self.pump()
        else:
            self._drain.set(self._timeouts.drain)

    def _step(self) -> bool:
        match self._phase:
            case Phase.SHAKING | Phase.WAITING | Phase.HEAD:
                return self._step_head()
            case Phase.EXCHANGE:
                return self._step_body()
            case Phase.TUNNEL | Phase.ENDING | Phase.GONE:
                self.inbox.clear()
                return False
            case _:
                assert_never(self._phase)

    def _step_head(self) -> bool:
        # Who does not read its answers gets no further ones.
        if self._wire.blocked:
            return False
        try:
            head = self._reader.feed(self.inbox.popleft())
            if head is None:
                self._begin_head()
            else:
                if self._reader.leftover:
                    self.inbox.appendleft(self._reader.leftover)
                    self._reader.leftover = b""
                self._exchange = Incoming(self, self._clock, head)
                self._enter(Phase.EXCHANGE, self._patience)
                self._on_request(self._exchange)
        except Malformed as malformed:
            self._refuse(malformed)
        return True

    def _begin_head(self) -> None:
        """Most come whole; for the rest of the others there is a time, counted once."""
        if self._phase is not Phase.HEAD:
            self._enter(Phase.HEAD, self._timeouts.head)

    def _step_body(self) -> bool:
        if self._exchange is None:
            return False
        try:
            return self._exchange.step()
        except Malformed as malformed:
            self._refuse(malformed)
            return False

    def _refuse(self, malformed: Malformed) -> None:
        begun = self._exchange is not None and self._exchange.begun
        why = Why(Cause.MALFORMED, malformed.what)
        self._leave(why)
        if self._on_malformed is not None:
            self._on_malformed(malformed)
        if begun:
            self._cut(why)
        else:
            self._wire.write([_refusal(malformed)])
            self._end()

    def _end(self) -> None:
        """Nothing more is said. What still arrives is read, so that our last words are."""
        self._leave(Why(Cause.CLOSING))
        self._drain.clear()
        self.inbox.clear()
        self._enter(Phase.ENDING, self._timeouts.idle)
        if self._eof:
            self._wire.close()
        else:
            self._wire.finish()

    def _at_eof(self) -> None:
        if self._phase is Phase.EXCHANGE:
            if self._exchange is not None and not self._exchange.body_ended:
                self._cut(Why(Cause.ENDED_EARLY))
        elif self._phase not in (Phase.GONE, Phase.TUNNEL):
            self._end()

    def _cut(self, why: Why) -> None:
        self._wire.abort()
        self._stop(why)

    def _stop(self, why: Why) -> None:
        self._phase = Phase.GONE
        self._alarm.clear()
        self._drain.clear()
        self.inbox.clear()
        self._leave(why)

    def _leave(self, why: Why) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.fail(why)

    def _flow(self) -> None:
        if self._raw is not None:
            self._raw.flowed()
            return
        self.progress()
        if self._exchange is not None:
            self._exchange.flow()
        if not self._wire.blocked:
            self.pump()

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self._alarm.set(seconds)

    def _ring(self) -> None:
        match self._phase:
            case Phase.WAITING:
                self._end()
            case Phase.HEAD:
                self._refuse(Malformed("request head took too long", 408))
            case Phase.SHAKING | Phase.EXCHANGE | Phase.TUNNEL | Phase.ENDING | Phase.GONE:
                self._cut(Why(Cause.IDLE))
            case _:
                assert_never(self._phase)


def _refusal(malformed: Malformed) -> bytes:
    body = b"G104 malformed request: " + malformed.what.encode() + b"\n"
    headers = (
        (b"Content-Type", b"text/plain"),
        (b"Connection", b"close"),
        *framing_headers(Length(len(body))),
    )
    return format_response(malformed.status, headers) + body
