"""One request at the server: its head, its body as it arrives, and the answer to it."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

from gitmoat.net.causes import Why
from gitmoat.net.http.outgoing import Outgoing
from gitmoat.net.http.sinks import BodySink, Discard
from gitmoat.net.timing import Clock
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.http.heads import (
    Chunked,
    Framing,
    Length,
    NoBody,
    Piece,
    RequestHead,
    body_reader,
    format_response,
    framing_headers,
)

DISCARD_LIMIT: Final = 2**30

Lines = Sequence[tuple[bytes, bytes]]

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODY: Final = "the body's reader is busy"


class IncomingConnection(Protocol):
    """What a request needs of its connection."""

    inbox: deque[bytes]

    @property
    def blocked(self) -> bool: ...
    @property
    def peer(self) -> object: ...
    def put(self, pieces: Sequence[Piece]) -> None: ...
    def hold(self, reason: Hashable) -> None: ...
    def release(self, reason: Hashable) -> None: ...
    def progress(self) -> None: ...
    def pump(self) -> None: ...
    def settle(self) -> None: ...
    def abort(self) -> None: ...
    def switch(self, head: bytes) -> TunnelEnd: ...


class Incoming:
    """What `on_request` gets. Once the client is lost, every call is ignored.

    Not before `stream` or `discard` is a byte of the body delivered, or asked for.
    """

    def __init__(self, connection: IncomingConnection, clock: Clock, head: RequestHead) -> None:
        self.head = head
        self._connection = connection
        self._clock = clock
        self._reader = body_reader(head.framing)
        self._continue = head.expect_continue and not self._reader.done
        self._sink: BodySink | None = None
        self._reasons: set[Hashable] = set()
        self._on_lost: list[Callable[[], None]] = []
        self._failure: Why | None = None
        self._out: Outgoing | None = None
        self.body_ended = self._reader.done
        self.begun = False
        self.answered = False
        self.closes = head.close

    @property
    def peer(self) -> object:
        """The transport, by which the peer is attested."""
        return self._connection.peer

    @property
    def alive(self) -> bool:
        return self._failure is None

    @property
    def blocked(self) -> bool:
        return self._connection.blocked

    def stream(self, sink: BodySink) -> None:
        """Deliver the body, from where it is now, to `sink`; it may be called before we return."""
        if self._failure is not None:
            sink.body_failed(self._failure)
        elif self.body_ended:
            sink.body_done()
        else:
            self._sink = sink
            self._send_continue()
            self._connection.pump()

    def discard(self, limit: int = DISCARD_LIMIT) -> None:
        """Read the rest of the body and drop it; beyond `limit` the connection will be closed."""
        if self.alive and not self.body_ended:
            self.stream(Discard(limit, self._overrun))

    def hold(self, reason: Hashable) -> None:
        """Deliver no more of the body until every reason is released."""
        if self.alive and not self.body_ended:
            self._reasons.add(reason)
            self._connection.hold(_BODY)

    def release(self, reason: Hashable) -> None:
        if reason in self._reasons:
            self._reasons.remove(reason)
            if not self._reasons:
                self._connection.release(_BODY)
                self._connection.pump()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call when the client vanishes before its answer is whole; at once if it has."""
        if self.alive:
            self._on_lost.append(callback)
        else:
            callback()

    def reply(
        self,
        status: int,
        headers: Lines,
        body: bytes = b"",
        close: bool = False,
        reason: bytes | None = None,
    ) -> None:
        """The whole answer in one write. What is left of the body is read and dropped.

        `reason` stands in the status line, where clients of a proxy show it.
        """
        # RFC 9112, section 6.3: these have no body, whatever their head says; nor has the answer
        # to a HEAD, whose head is that of the answer to a GET.
        framing = NoBody() if status in (204, 304) else Length(len(body))
        head = self._begin(status, headers, framing, close, reason)
        if self.alive:
            bodiless = self.head.method == b"HEAD" or isinstance(framing, NoBody)
            self._connection.put([head if bodiless else head + body])
            self.sent()

    def begin(
        self,
        status: int,
        headers: Lines,
        framing: NoBody | Length | Chunked,
        close: bool = False,
    ) -> Outgoing:
        """Begin an answer whose body is written as it comes."""
        head = self._begin(status, headers, framing, close)
        out = Outgoing(self, self._clock, head, framing)
        if self.alive:
            self._out = out
            out.start()
        else:
            out.detach()
        return out

    def tunnel(self, head: bytes) -> TunnelEnd:
        """Answer a CONNECT with `head`; the connection is then an end of a tunnel (RFC 9110,
        section 9.3.6).

        `on_lost` is not called any more: the user of the end is told.
        """
        self._on_lost.clear()
        return self._connection.switch(head)

    # What follows is for the connection.

    def put(self, pieces: Sequence[Piece]) -> None:
        self._connection.put(pieces)

    def sent(self) -> None:
        self.answered = True
        self._out = None
        self._on_lost.clear()
        if self.closes:
            self._sink = None
        elif not isinstance(self._sink, Discard):
            self.discard()
        self._connection.settle()

    def abort(self) -> None:
        if self.alive:
            self._connection.abort()

    def flow(self) -> None:
        if self._out is not None:
            self._out.flow()

    def step(self) -> bool:
        """Use one piece of the inbox; False when nobody takes it now."""
        if self._sink is None or self._reasons or self.body_ended:
            return False
        pieces = self._reader.feed(self._connection.inbox.popleft())
        self._connection.progress()
        if self._reader.leftover:
            self._connection.inbox.appendleft(self._reader.leftover)
        if pieces:
            self._sink.body(*pieces)
        if self._reader.done:
            self._end_body()
        return True

    def fail(self, why: Why) -> None:
        """The client is lost, or broke the rules: tell everybody who waits, once."""
        if not self.alive:
            return
        self._failure = why
        out, self._out = self._out, None
        sink, self._sink = self._sink, None
        callbacks, self._on_lost = self._on_lost, []
        if out is not None:
            out.detach()
        if sink is not None:
            sink.body_failed(why)
        for callback in callbacks:
            callback()

    def _begin(
        self,
        status: int,
        headers: Lines,
        framing: Framing,
        close: bool,
        reason: bytes | None = None,
    ) -> bytes:
        if self.begun and self.alive:
            raise RuntimeError("the request was answered already")
        self.begun = True
        # A client that waits for 100 (RFC 9110, section 10.1.1) and gets its answer first may send
        # its body or not. Nobody could tell that body from its next request, so there is none.
        self.closes = self.closes or close or self._continue
        connection = ((b"Connection", b"close"),) if self.closes else ()
        lines = (*headers, *framing_headers(framing), *connection)
        return format_response(status, lines, reason)

    def _send_continue(self) -> None:
        if self._continue and not self.begun:
            self._continue = False
            # It may be left out where the body is coming already (RFC 9110, section 10.1.1).
            if not self._connection.inbox:
                self._connection.put([_CONTINUE])

    def _end_body(self) -> None:
        sink, self._sink = self._sink, None
        self._reasons.clear()
        self._connection.release(_BODY)
        if self.alive:
            self.body_ended = True
            if sink is not None:
                sink.body_done()
            self._connection.settle()

    def _overrun(self) -> None:
        self.closes = True
        self.hold(_BODY)
        self._connection.settle()
