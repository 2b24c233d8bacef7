"""Joins a request at our server to a connection of our client, in constant memory."""

from collections.abc import Callable
from enum import Enum

from attrs import define, frozen
from twisted.internet.defer import Deferred

from gitwire.errors import Malformed
from gitwire.http import Chunked, Framing, Length, NoBody, Piece, ResponseHead, UntilClose
from streams.causes import Cause, Why
from streams.client import ClientConnection
from streams.incoming import DISCARD_LIMIT, Incoming, Lines
from streams.outgoing import Outgoing


@frozen
class Refuse:
    """The upstream's answer is not passed on. `code` is for whoever then answers, if there is one;
    `detail` for the log and the audit, which have the code without it."""

    code: str | None = None
    detail: str = ""


class Side(Enum):
    CLIENT = "client"
    UPSTREAM = "upstream"
    US = "us"


@frozen
class Relayed:
    """The whole answer went to the client's transport."""

    status: int
    bytes_up: int
    bytes_down: int


@frozen
class Unanswered:
    """Nothing was said to the client yet: reply, or (a request without body) try once more.

    `refused` when `answer` refused the upstream's head; else the upstream failed. `body` is all
    that was sent of the request's body, if it was kept; the rest then waits where it is: relay it
    again with `body` as prelude, or reply.
    """

    why: Why
    refused: Refuse | None
    bytes_up: int
    body: bytes | None = None


@frozen
class Broken:
    """Both connections were cut before the answer was whole."""

    side: Side
    why: Why
    bytes_up: int
    bytes_down: int


Outcome = Relayed | Unanswered | Broken
Answer = Callable[[ResponseHead], tuple[int, Lines] | Refuse]


class Relay:
    """One exchange through us. `start` it once; `done` fires when both ends are settled."""

    def __init__(
        self,
        incoming: Incoming,
        client: ClientConnection,
        head: bytes,
        framing: Framing,
        answer: Answer,
        prelude: bytes = b"",
        discard_limit: int = DISCARD_LIMIT,
        max_up: int | None = None,
        max_down: int | None = None,
        to_head: bool = False,
        keep: int | None = None,
    ) -> None:
        """`framing` is of what goes up, `prelude` included; `head` announces it.

        `to_head`: the request is a HEAD, whose answer has no body. `keep`: up to so many bytes of
        the body are kept, for another attempt.
        """
        self._keep = keep or 0
        self._kept = None if keep is None else bytearray()
        self._to_head = to_head
        self._incoming = incoming
        self._client = client
        self._head = head
        self._framing = framing
        self._answer = answer
        self._prelude = prelude
        self._discard_limit = discard_limit
        self._max_up = max_up
        self._max_down = max_down
        self._up: Outgoing | None = None
        self._down: Outgoing | None = None
        self._status = 0
        self._over = False
        self.bytes_up = 0
        self.bytes_down = 0
        self.done: Deferred[Outcome] = Deferred()

    def start(self) -> "Deferred[Outcome]":
        up = self._client.send(self._head, self._framing, _Down(self), self._to_head)
        self._up = up
        up.bind_source(self._hold_client, self._release_client)
        self._incoming.on_lost(self._client_lost)
        self.to_upstream(self._prelude)
        if not self._over:
            self._incoming.stream(_Up(self))
        return self.done

    def cut(self, why: Why) -> None:
        """End it from outside, for both peers."""
        self._break(Side.US, why)

    # The request's body, going up

    def to_upstream(self, *pieces: Piece) -> None:
        if self._over or self._up is None:
            return
        self.bytes_up += sum(map(len, pieces))
        if self._max_up is not None and self.bytes_up > self._max_up:
            self._unanswered(Why(Cause.REQUEST_TOO_LARGE))
            return
        if self._kept is not None and self.bytes_up <= self._keep:
            self._kept += b"".join(pieces)
        else:
            self._kept = None
        self._up.write(*pieces)

    def request_done(self) -> None:
        if not self._over and self._up is not None:
            self._up.finish()

    def request_failed(self, why: Why) -> None:
        self._break(Side.CLIENT, why)

    # The response, coming down

    def answered(self, head: ResponseHead) -> None:
        if self._over:
            return
        try:
            answer = self._answer(head)
        except Malformed as malformed:
            answer = Refuse(detail=malformed.what)
        if isinstance(answer, Refuse):
            self._unanswered(
                Why(Cause.REFUSED, answer.detail or answer.code or "", answer.code), answer
            )
            return
        self._status, headers = answer
        self._down = self._incoming.begin(self._status, headers, _framing_down(head.framing))
        self._down.bind_source(self._client.pause_reading, self._client.resume_reading)

    def to_client(self, *pieces: Piece) -> None:
        if self._over or self._down is None:
            return
        self.bytes_down += sum(map(len, pieces))
        if self._max_down is not None and self.bytes_down > self._max_down:
            self._break(Side.US, Why(Cause.ANSWER_TOO_LARGE))
        else:
            self._down.write(*pieces)

    def answer_done(self) -> None:
        if self._over or self._down is None:
            return
        self._over = True
        # An early answer: the upstream wants no more of the body, the client still sends it.
        self._incoming.discard(self._discard_limit)
        self._down.finish()
        self.done.callback(Relayed(self._status, self.bytes_up, self.bytes_down))

    def upstream_failed(self, why: Why) -> None:
        if why.cause is Cause.NO_REQUEST:
            self._break(Side.CLIENT, why)
        elif self._down is None:
            self._unanswered(why)
        else:
            self._break(Side.UPSTREAM, why)

    def _unanswered(self, why: Why, refused: Refuse | None = None) -> None:
        if self._over:
            return
        if self._down is not None:
            self._break(Side.US, why)
            return
        self._over = True
        self._client.abort()
        if self._kept is None:
            self._incoming.discard(self._discard_limit)
        body = None if self._kept is None else bytes(self._kept)
        self.done.callback(Unanswered(why, refused, self.bytes_up, body))

    def _break(self, side: Side, why: Why) -> None:
        if self._over:
            return
        self._over = True
        self._client.abort()
        self._incoming.abort()
        self.done.callback(Broken(side, why, self.bytes_up, self.bytes_down))

    def _client_lost(self) -> None:
        self._break(Side.CLIENT, Why(Cause.CLIENT_LOST))

    def _hold_client(self) -> None:
        self._incoming.hold(self)

    def _release_client(self) -> None:
        self._incoming.release(self)


@define(eq=False)
class _Up:
    """The request's body as the server's connection delivers it."""

    relay: Relay

    def body(self, *pieces: Piece) -> None:
        self.relay.to_upstream(*pieces)

    def body_done(self) -> None:
        self.relay.request_done()

    def body_failed(self, why: Why) -> None:
        self.relay.request_failed(why)


@define(eq=False)
class _Down:
    """The response as the client's connection delivers it."""

    relay: Relay

    def response(self, head: ResponseHead) -> None:
        self.relay.answered(head)

    def body(self, *pieces: Piece) -> None:
        self.relay.to_client(*pieces)

    def body_done(self) -> None:
        self.relay.answer_done()

    def failed(self, why: Why) -> None:
        self.relay.upstream_failed(why)


def _framing_down(framing: Framing) -> NoBody | Length | Chunked:
    """An end by closing could be a cut: our own answer always has an end of its own."""
    return Chunked() if isinstance(framing, UntilClose) else framing
