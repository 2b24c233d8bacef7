"""The client's end of an HTTP/1.1 connection: one exchange at a time, reused after a clean one."""

from collections.abc import Callable, Sequence
from typing import Final

from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.connection import Connection
from gitmoat.net.http.outgoing import Outgoing
from gitmoat.net.http.sinks import ResponseSink
from gitmoat.net.timing import Clock, Timeout, Timeouts
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.http.heads import (
    BodyReader,
    Framing,
    NoBody,
    Piece,
    ResponseHead,
    ResponseReader,
    body_reader,
)
from gitmoat.wire.malformed import Malformed

# Of an answer, so much may be framing, and half of what it frames on top. RFC 9112 bounds neither
# the number of chunks nor their extensions (section 7.1.1 asks it of servers). Chunks of a dozen
# bytes pass, single bytes do not: they cost a thousand times what they carry.
FRAMING: Final = 64 * 1024
_CONSUMER: Final = "the response's reader is busy"
_DEFAULT: Final = Timeouts()


class _Failed(Exception):
    """The exchange cannot be whole any more."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


class _Exchange:
    """One request sent and its response being read."""

    def __init__(
        self, sink: ResponseSink, to_head: bool, on_open: Callable[[TunnelEnd], None] | None = None
    ) -> None:
        self.sink = sink
        self.on_open = on_open
        self.out: Outgoing | None = None
        self.head: ResponseHead | None = None
        self._heads = ResponseReader(to_head=to_head)
        self._body: BodyReader | None = None
        self._spoken = False
        self._framing = 0
        self._carried = 0
        self.leftover = b""

    @property
    def done(self) -> bool:
        return self._body is not None and self._body.done

    @property
    def clean(self) -> bool:
        """Whether both messages were whole and nothing came behind them."""
        keeps = self.head is not None and not self.head.close
        sent = self.out is not None and self.out.finished
        return self.done and keeps and sent and not self.leftover

    def take(self, data: bytes) -> bytes:
        """Read `data` as far as it goes in one step; return what is left for the next."""
        if self._body is None:
            return self._take_head(data)
        pieces = self._body.feed(data)
        self.leftover = self._body.leftover
        carried = sum(map(len, pieces))
        self._carried += carried
        self._framing += len(data) - len(self.leftover) - carried
        if self._framing > FRAMING + self._carried // 2:
            raise _Failed(Cause.TOO_FINE)
        if pieces:
            self.sink.body(*pieces)
        return b""

    @property
    def switched(self) -> bool:
        """Whether what follows the head is no HTTP any more. RFC 9110, section 9.3.6 says so of any
        2xx; the peers that we ask say 200, and anything else is refused."""
        return self.on_open is not None and self.head is not None and self.head.status == 200

    def finish(self) -> None:
        """The connection ended: raise unless the response is whole."""
        if self._body is None:
            raise _Failed(Cause.LOST_BEFORE_ANSWER if self._spoken else Cause.NOT_TAKEN)
        self._body.finish()

    def _take_head(self, data: bytes) -> bytes:
        self._spoken = True
        head = self._heads.feed(data)
        if head is None:
            return b""
        self.head = head
        rest, self._heads.leftover = self._heads.leftover, b""
        if self.on_open is not None and self.switched:
            return rest
        self._body = body_reader(head.framing)
        if self._body.done:
            self.leftover, rest = rest, b""
        self.sink.response(head)
        return rest


class ClientConnection(Connection):
    """Call `send` while `idle`. `on_ready` tells the first time, `on_lost` the end of it all."""

    def __init__(
        self,
        clock: Clock,
        timeouts: Timeouts = _DEFAULT,
        secure: bool = True,
        on_ready: "Callable[[ClientConnection], None] | None" = None,
        on_lost: "Callable[[ClientConnection, Failure], None] | None" = None,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._timeouts = timeouts
        self._secure = secure
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._timeout = Timeout(clock, self._expired)
        self._ready = False
        self._exchange: _Exchange | None = None
        self._ended = False
        self._whole = False

    @property
    def idle(self) -> bool:
        return (
            self._ready and not self._ended and self._exchange is None and self._tunnel_end is None
        )

    @property
    def answered(self) -> bool:
        """Whether what the sink gets now ends the response: `body_done` follows in this turn."""
        return self._exchange is not None and self._exchange.done

    def connect(
        self, head: bytes, sink: ResponseSink, on_open: Callable[[TunnelEnd], None]
    ) -> None:
        """Send a CONNECT. At 200 `on_open` gets what the connection has become; anything else,
        also a failure before that, goes to `sink`."""
        self._begin(head, NoBody(), _Exchange(sink, False, on_open))

    def send(
        self, head: bytes, framing: Framing, sink: ResponseSink, to_head: bool = False
    ) -> Outgoing:
        """Send a request; `head` announces `framing`. The body is written to what is returned.

        `to_head`: the method is HEAD, whose answer has no body whatever it announces.
        """
        return self._begin(head, framing, _Exchange(sink, to_head))

    def _begin(self, head: bytes, framing: Framing, exchange: _Exchange) -> Outgoing:
        if not self.idle:
            raise RuntimeError("the connection is not free")
        self._exchange = exchange
        exchange.out = out = Outgoing(self, self._clock, head, framing)
        self._timeout.set(self._timeouts.idle)
        out.start()
        return out

    def pause_reading(self) -> None:
        """Deliver no more of the response until `resume_reading`."""
        if self._exchange is not None:
            self._transport.hold(_CONSUMER)

    def resume_reading(self) -> None:
        self._transport.release(_CONSUMER)
        self.pump()

    def close(self) -> None:
        """Close in order when idle; otherwise the same as `abort`."""
        if self._exchange is not None or self._tunnel_end is not None:
            self.abort()
        elif not self._ended:
            self._retire()
            self._transport.loseConnection()

    def abort(self) -> None:
        """Cut the connection; the exchange on it, if any, fails."""
        self._fail(Why(Cause.CUT))

    # Twisted's callbacks

    def connectionMade(self) -> None:
        super().connectionMade()
        self._timeout.set(self._timeouts.head)
        if not self._secure:
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:
        if self._ready or self._ended:
            return
        self._ready = True
        self._timeout.clear()
        if self._on_ready is not None:
            self._on_ready(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._tunnel_end is not None:
            self._tunnel_end.was_lost(isinstance(reason.value, ConnectionDone))
        else:
            self._end(whole=isinstance(reason.value, ConnectionDone))
        if self._on_lost is not None:
            self._on_lost(self, reason)

    # What the outgoing request asks of us

    def put(self, pieces: Sequence[Piece]) -> None:
        self._timeout.set(self._timeouts.idle)
        self._transport.write(*pieces)

    def sent(self) -> None:
        """The response decides what comes next."""

    # What the transport leads to

    def _pumped(self) -> None:
        if self._ended and not self.inbox:
            self._at_end()

    def _peer_ended(self) -> None:
        self._end(whole=True)

    def _flowed(self) -> None:
        if self._exchange is not None:
            self._timeout.set(self._timeouts.idle)
            if self._exchange.out is not None:
                self._exchange.out.flow()

    def _step(self) -> bool:
        if self._exchange is None:
            # Nothing was asked, or the answer went on behind its end. It must not be taken for the
            # answer to what will be asked next (RFC 9112, section 9.2).
            self.inbox.clear()
            self._cut()
            return False
        if self._transport.held:
            return False
        self._timeout.set(self._timeouts.idle)
        try:
            rest = self._exchange.take(self.inbox.popleft())
        except (_Failed, Malformed) as problem:
            self._fail(_why(problem))
            return False
        if rest:
            self.inbox.appendleft(rest)
        exchange = self._exchange
        if exchange is not None and exchange.on_open is not None and exchange.switched:
            self._exchange = None
            self._timeout.clear()
            exchange.on_open(self._switch())
            return False
        self._settle()
        return True

    def _settle(self) -> None:
        exchange = self._exchange
        if exchange is None or not exchange.done:
            return
        self._exchange = None
        self._timeout.clear()
        self._transport.release_all()
        reusable = exchange.clean and not self.inbox
        if not reusable:
            self.inbox.clear()
            self._cut()
        if exchange.out is not None and exchange.out.alive:
            exchange.out.detach()
        exchange.sink.body_done()

    def _end(self, whole: bool) -> None:
        """No more will come. What came is still delivered when its reader is ready for it."""
        if not self._ended:
            self._retire()
            self._whole = whole
        if self._exchange is not None and self._exchange.out is not None:
            self._exchange.out.detach()
        self.pump()

    def _at_end(self) -> None:
        exchange = self._exchange
        if exchange is None:
            self._transport.loseConnection()
            return
        try:
            # Without close_notify somebody else may have cut it short (RFC 9112, section 9.8).
            if not self._whole:
                raise _Failed(Cause.LOST)
            exchange.finish()
        except (_Failed, Malformed) as problem:
            self._fail(_why(problem))
        else:
            self._settle()

    def _fail(self, why: Why) -> None:
        exchange, self._exchange = self._exchange, None
        self.inbox.clear()
        self._cut()
        if exchange is not None:
            if exchange.out is not None:
                exchange.out.detach()
            exchange.sink.failed(why)

    def _cut(self) -> None:
        self._retire()
        self._transport.abortConnection()

    def _retire(self) -> None:
        self._ended = True
        if self._exchange is None:
            self._timeout.clear()

    def _expired(self) -> None:
        exchange = self._exchange
        unsent = exchange is not None and exchange.out is not None and not exchange.out.finished
        # A peer that takes what we have waits for the rest, and is not the one who is late.
        late = unsent and not self._transport.blocked
        self._fail(Why(Cause.NO_REQUEST if late else Cause.NO_ANSWER))


def _why(problem: _Failed | Malformed) -> Why:
    if isinstance(problem, Malformed):
        return Why(Cause.MALFORMED, problem.what)
    return Why(problem.cause)
