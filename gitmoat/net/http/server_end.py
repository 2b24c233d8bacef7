"""The server's end of an HTTP/1.1 connection: one exchange at a time, in order."""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum, auto
from typing import Final, assert_never

from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.connection import Connection
from gitmoat.net.http.incoming import Incoming
from gitmoat.net.timing import Clock, Timeout, Timeouts
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.http.heads import Length, Piece, RequestReader, format_response, framing_headers
from gitmoat.wire.malformed import Malformed

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


class ServerConnection(Connection):
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
        on_secure: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._new_reader = reader
        self._on_request = on_request
        self._timeouts = timeouts
        self._exchange_timeout = timeouts.idle + timeouts.grace
        self._secure = secure
        self._on_malformed = on_malformed
        self._on_lost = on_lost
        self._on_secure = on_secure
        self._timeout = Timeout(clock, self._expired)
        self._drain = Timeout(clock, self._end)
        self._phase = Phase.WAITING
        self._reader = reader()
        self._exchange: Incoming | None = None
        self._unwanted = False
        self._eof = False

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
        return self._tunnel_end is not None

    @property
    def peer(self) -> object:
        return self.transport

    # Twisted's callbacks

    def connectionMade(self) -> None:
        super().connectionMade()
        if self._secure:
            self._enter(Phase.SHAKING, self._timeouts.head)
        else:
            self._enter(Phase.WAITING, self._timeouts.wait)

    def handshakeCompleted(self) -> None:
        if self._phase is Phase.SHAKING:
            self._enter(Phase.WAITING, self._timeouts.wait)
            if self._unwanted:
                self._end()
            elif self._on_secure is not None:
                self._on_secure()

    def writeConnectionLost(self) -> None:
        if self._tunnel_end is not None:
            super().writeConnectionLost()
        elif not self._secure:  # behind TLS the transport waits, for the peer's close_notify
            self._timeout.set(self._timeouts.linger)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stop(Why(Cause.LOST))
        if self._tunnel_end is not None:
            self._tunnel_end.was_lost(isinstance(reason.value, ConnectionDone))
        if self._on_lost is not None:
            self._on_lost()

    # What an exchange asks of us

    def put(self, pieces: Sequence[Piece]) -> None:
        self.progress()
        self._transport.write(*pieces)

    def hold(self, reason: Hashable) -> None:
        self._transport.hold(reason)

    def release(self, reason: Hashable) -> None:
        self._transport.release(reason)

    def progress(self) -> None:
        if self._phase is Phase.EXCHANGE:
            self._timeout.set(self._exchange_timeout)

    def switch(self, head: bytes) -> TunnelEnd:
        """Say the last HTTP that is said here; from then on this is an end of a tunnel."""
        self._exchange = None
        self._phase = Phase.TUNNEL
        self._timeout.clear()
        self._drain.clear()
        end = self._switch()
        self._transport.write(head)
        if self._eof:
            end.has_ended()
        return end

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

    # What the transport leads to

    def _pumped(self) -> None:
        if self.inbox:
            self._transport.hold(_INBOX)
            return
        self._transport.release(_INBOX)
        if self._eof:
            self._at_eof()

    def _peer_ended(self) -> None:
        self._eof = True
        self.pump()

    def _flowed(self) -> None:
        self.progress()
        if self._exchange is not None:
            self._exchange.flow()
        if not self.blocked:
            self.pump()

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
        # The peer does not read its answers: its next request waits, or the answers to requests
        # sent ahead (RFC 9112, section 9.3.2) would collect here.
        if self._transport.blocked:
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
                self._enter(Phase.EXCHANGE, self._exchange_timeout)
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
        # An answer that has begun cannot be taken back. It is cut, so that its client cannot take
        # it for a whole one (RFC 9112, section 8).
        begun = self._exchange is not None and self._exchange.begun
        why = Why(Cause.MALFORMED, malformed.what)
        self._leave(why)
        if self._on_malformed is not None:
            self._on_malformed(malformed)
        if begun:
            self._cut(why)
        else:
            self._transport.write(_refusal(malformed))
            self._end()

    def _end(self) -> None:
        """Nothing more is said. What still arrives is read and dropped: to a closed socket the
        kernel answers with a reset, which can destroy our last words before the peer has read them
        (RFC 9112, section 9.6)."""
        self._leave(Why(Cause.CLOSING))
        self._drain.clear()
        self.inbox.clear()
        self._enter(Phase.ENDING, self._timeouts.idle)
        if self._eof:
            self._transport.loseConnection()
        else:
            self._transport.loseWriteConnection()

    def _at_eof(self) -> None:
        if self._phase is Phase.EXCHANGE:
            if self._exchange is not None and not self._exchange.body_ended:
                # The rest can not come any more (RFC 9112, section 8): nothing is done by halves.
                self._cut(Why(Cause.ENDED_EARLY))
        elif self._phase not in (Phase.GONE, Phase.TUNNEL):
            self._end()

    def _cut(self, why: Why) -> None:
        self._transport.abortConnection()
        self._stop(why)

    def _stop(self, why: Why) -> None:
        self._phase = Phase.GONE
        self._timeout.clear()
        self._drain.clear()
        self.inbox.clear()
        self._leave(why)

    def _leave(self, why: Why) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.fail(why)

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self._timeout.set(seconds)

    def _expired(self) -> None:
        match self._phase:
            case Phase.WAITING:
                self._end()
            case Phase.HEAD:
                # RFC 9110, section 15.5.9
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
