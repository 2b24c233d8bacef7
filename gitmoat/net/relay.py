"""Joins a request at our server to a connection of our client, in constant memory."""

from collections.abc import Callable
from enum import Enum

from attrs import define, frozen
from twisted.internet.defer import Deferred

from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.incoming import DISCARD_LIMIT, Incoming, Lines
from gitmoat.net.http.outgoing import Outgoing
from gitmoat.net.stages import Pieces, Stages, finish, last_words, pass_on
from gitmoat.wire.http.heads import (
    Chunked,
    Framing,
    Length,
    NoBody,
    Piece,
    ResponseHead,
    UntilClose,
)
from gitmoat.wire.malformed import Malformed


@frozen
class Refuse:
    """The upstream's answer is not passed on. `code` is for the answer in its place, if there is
    one; `detail` for the log and the audit, which have the code without it; `hint` for the client.
    """

    code: str | None = None
    detail: str = ""
    hint: str = ""


class Side(Enum):
    CLIENT = "client"
    UPSTREAM = "upstream"
    US = "us"


@frozen
class Relayed:
    """The whole answer went to the client's transport.

    `ended`: why it is whole only by the last words of a stage, which are not counted.
    """

    status: int
    bytes_up: int
    bytes_down: int
    ended: Why | None = None


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
    """One exchange through us, to be started once.

    It owns both ends from its making to its outcome. Cancelling what `start` returned cuts both,
    and leaves no outcome: what moved until then is in `bytes_up` and `bytes_down`.
    """

    def __init__(
        self,
        incoming: Incoming,
        client: ClientConnection,
        head: bytes,
        framing: Framing,
        answer: Answer,
        prelude: bytes = b"",
        *,
        up: Stages = (),
        down: Stages = (),
        discard_limit: int = DISCARD_LIMIT,
        to_head: bool = False,
        keep: int | None = None,
    ) -> None:
        """`framing` is of what goes up, `prelude` included; `head` announces it.

        `to_head`: the request is a HEAD, whose answer has no body. `keep`: up to so many bytes of
        the body are kept, as they came, for another attempt.
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
        self._up_stages = up
        self._down_stages = down
        self._discard_limit = discard_limit
        self._up: Outgoing | None = None
        self._down: Outgoing | None = None
        self._status = 0
        self._open_ended = False
        self._last: Pieces = ()  # of an answer: they wait for its end, which has come with them
        self._client_held = False
        self._over = False
        self.bytes_up = 0
        self.bytes_down = 0
        self._done: Deferred[Outcome] = Deferred(self._cancelled)

    def start(self) -> "Deferred[Outcome]":
        """Where it was cut before, nothing is sent, and the outcome is there at once."""
        if self._over:
            return self._done
        up = self._client.send(self._head, self._framing, _Down(self), self._to_head)
        self._up = up
        up.bind_source(self._hold_client, self._release_client)
        self._incoming.on_lost(self._client_lost)
        if self._prelude:
            self.to_upstream(self._prelude)
        if not self._over:
            self._incoming.stream(_Up(self))
        return self._done

    def cut(self, why: Why) -> None:
        """End it at once, for both peers: in words where a stage has any, else by a reset."""
        if not self._end_in_words(why):
            self._break(Side.US, why)

    def end(self, why: Why) -> None:
        """As a stage does: what the client has heard nothing of is Unanswered, so that its owner
        can reply; anything else is cut."""
        if self._down is None:
            self._unanswered(why)
        else:
            self.cut(why)

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing but the client's own sending or reading holds things up now."""
        sending = not self._incoming.body_ended and not self._client_held
        return sending or self._incoming.blocked

    # The request's body, going up

    def to_upstream(self, *pieces: Piece) -> None:
        if self._over:
            return
        if self._kept is not None:
            self._keep_back(pieces)
        stages = self._up_stages
        self._send_up(*pass_on(stages, pieces) if stages else (pieces, None))

    def request_done(self) -> None:
        if not self._over and self._up_stages:
            self._send_up(*finish(self._up_stages))
        if not self._over and self._up is not None:
            self._up.finish()

    def request_failed(self, why: Why) -> None:
        self._break(Side.CLIENT, why)

    def _keep_back(self, pieces: Pieces) -> None:
        if self._kept is not None and len(self._kept) + sum(map(len, pieces)) <= self._keep:
            self._kept += b"".join(pieces)
        else:
            self._kept = None

    def _send_up(self, pieces: Pieces, why: Why | None) -> None:
        self.bytes_up += sum(map(len, pieces))
        if self._up is not None:
            self._up.write(*pieces)
        if why is not None:
            self.end(why)

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
        framing = _framing_down(head.framing)
        self._open_ended = isinstance(framing, Chunked)
        self._down = self._incoming.begin(self._status, headers, framing)
        self._down.bind_source(self._client.pause_reading, self._client.resume_reading)

    def to_client(self, *pieces: Piece) -> None:
        if self._over:
            return
        stages = self._down_stages
        passed, why = pass_on(stages, pieces) if stages else (pieces, None)
        if why is None and self._open_ended and self._client.answered:
            self._last = passed  # a small answer leaves as one write, and wakes whoever reads once
        else:
            self._send_down(passed, why)

    def answer_done(self) -> None:
        last, self._last = self._last, ()
        if not self._over and self._down_stages:
            held, why = finish(self._down_stages)
            last = [*last, *held]
            if why is not None:
                self._send_down(last, why)
        if not self._over and self._down is not None:
            self.bytes_down += sum(map(len, last))
            self._finish(self._down, *last)
            self._done.callback(Relayed(self._status, self.bytes_up, self.bytes_down))

    def upstream_failed(self, why: Why) -> None:
        if self._down is None:
            self._unanswered(why)
        elif why.cause is Cause.NO_REQUEST:
            self._break(Side.CLIENT, why)
        elif not self._end_in_words(why):
            self._break(Side.UPSTREAM, why)

    def _send_down(self, pieces: Pieces, why: Why | None) -> None:
        self.bytes_down += sum(map(len, pieces))
        if self._down is not None:
            self._down.write(*pieces)
        if why is not None:
            self.end(why)

    # The end

    def _finish(self, down: Outgoing, *pieces: Piece) -> None:
        """The client has the whole of an answer."""
        self._over = True
        # An early answer: nobody wants the rest of the body, and the client may still send it (RFC
        # 9112, section 9.3 has it read, or the connection closed).
        self._incoming.discard(self._discard_limit)
        down.finish(*pieces)

    def _end_in_words(self, why: Why) -> bool:
        """Whether the answer could be made whole; else nothing has happened."""
        if self._over or self._down is None or not self._open_ended:
            return False
        words = last_words(self._down_stages, why)
        if words is None:
            return False
        self._finish(self._down, *words)
        self._client.abort()
        self._done.callback(Relayed(self._status, self.bytes_up, self.bytes_down, why))
        return True

    def _unanswered(self, why: Why, refused: Refuse | None = None) -> None:
        if self._over:
            return
        self._over = True
        self._client.abort()
        if self._kept is None:
            self._incoming.discard(self._discard_limit)
        body = None if self._kept is None else bytes(self._kept)
        self._done.callback(Unanswered(why, refused, self.bytes_up, body))

    def _break(self, side: Side, why: Why) -> None:
        if self._close():
            self._done.callback(Broken(side, why, self.bytes_up, self.bytes_down))

    def _close(self) -> bool:
        """Cut both ends; whether they were not settled before."""
        if self._over:
            return False
        self._over = True
        self._client.abort()
        self._incoming.abort()
        return True

    def _cancelled(self, _: "Deferred[Outcome]") -> None:
        self._close()

    def _client_lost(self) -> None:
        self._break(Side.CLIENT, Why(Cause.CLIENT_LOST))

    def _hold_client(self) -> None:
        self._client_held = True
        self._incoming.hold(self)

    def _release_client(self) -> None:
        self._client_held = False
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
    """An end by closing could be a cut (RFC 9112, section 8): our own answer always has an end of
    its own."""
    return Chunked() if isinstance(framing, UntilClose) else framing
