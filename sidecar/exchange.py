"""One request of any kind, from its head to its outcome.

decide -> rate -> link -> transfer, again where its kind says so -> outcome. One coroutine runs it,
and one state says how far it is; bytes flow by callbacks below.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from math import ceil
from typing import Any, Final, Protocol, TypeVar, assert_never

from attrs import define, evolve, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.messages.report import Report
from gitmoat.net import relay
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.incoming import Incoming
from gitmoat.net.memory import give_back_after
from gitmoat.net.relay import Broken, Relay, Relayed, Unanswered
from gitmoat.net.timing import Timeouts
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.net.tunnel_relay import Tunnel
from gitmoat.wire.http.heads import Headers, Piece, ResponseHead
from sidecar.kind import (
    Allow,
    Answered,
    AnyKind,
    Challenge,
    Deny,
    Joined,
    Reply,
    Scope,
    Source,
    Stream,
    Told,
)
from sidecar.link.broker_link import shown
from sidecar.link.connection_pool import RETRY_DELAY, BrokerUnreachable, ConnectionPool, Proof
from sidecar.loop import Loop

T = TypeVar("T")
_STOPPED: Final = Why(Cause.STOPPED)


class State(Enum):
    DECIDING = auto()
    LINKING = auto()  # waits for a link, or for a moment before another try
    TRANSFER = auto()
    REFUSING = auto()
    CUT = auto()  # whatever is awaited is being ended, and nothing is sent any more
    OVER = auto()


class Pace(Protocol):
    """What slows a port down: its rate of requests, and its number of refusals."""

    def wait(self, opens: bool) -> float:
        """0.0 when a request may go on; else seconds to wait."""

    def refused(self) -> float:
        """One more; the seconds after which it is answered."""


class Client(Protocol):
    """What asks, in HTTP or, where `incoming` is None, with a ClientHello."""

    @property
    def incoming(self) -> Incoming | None: ...

    def gone(self) -> bool:
        """Asked of the kernel: what it has sent need not have been read."""

    def reply(self, reply: Reply) -> None: ...

    def abort(self) -> None: ...

    def tunnel(self) -> tuple[TunnelEnd, bytes]:
        """Its end of a tunnel, and what it has said already."""


@frozen(eq=False)
class Context:
    """What every exchange of a sidecar needs."""

    loop: Loop
    scope: Scope
    pool: ConnectionPool[ClientConnection]
    report: Callable[[Report], None]
    new_id: Callable[[], str]
    timeouts: Timeouts
    running: set[Exchange] = field(factory=set)

    def policy_changed(self) -> int:
        """End what lasts and is not allowed any more; how many that were."""
        denied = [each for each in self.running if not each.still_allowed()]
        for each in denied:
            each.cut()
        return len(denied)


@frozen
class Failed:
    """Nothing was said to the client. `body`: all that was sent of its request's; None: it cannot
    be sent again."""

    cause: Cause
    body: bytes | None


@define(eq=False)
class Exchange:
    """`start` it once; `on_end` is called once, when nothing of it is left."""

    _context: Context
    _kind: AnyKind
    _asked: object
    _source: Source
    _pace: Pace
    _client: Client
    _on_end: Callable[[], None]
    _id: str = field(init=False)
    _state: State = field(default=State.DECIDING, init=False)
    _cancel: Callable[[], object] | None = field(default=None, init=False)

    _log = Logger()

    def start(self) -> None:
        self._id = self._context.new_id()
        self._context.running.add(self)
        Deferred.fromCoroutine(self._run()).addErrback(self._ended_by)

    def cut(self) -> None:
        """End it, at both ends: its client has left, the policy has changed, or we stop."""
        if self._state in (State.CUT, State.OVER):
            return
        self._state = State.CUT
        self._client.abort()
        if self._cancel is not None:
            self._cancel()

    @property
    def _is_cut(self) -> bool:
        return self._state is State.CUT

    def still_allowed(self) -> bool:
        """Asked again when the policy has changed, of what is under way and lasts."""
        if not self._kind.lasts or self._state not in (State.LINKING, State.TRANSFER):
            return True
        return isinstance(self._decided(), Allow)

    async def _run(self) -> None:
        try:
            await self._serve()
        finally:
            if self._state is not State.OVER:
                self._client.abort()  # cut, or an error of ours
            self._state = State.OVER
            self._context.running.discard(self)
            self._on_end()

    def _ended_by(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("a request failed: {kind}", failure, kind=self._kind.name)

    async def _wait(self, what: Deferred[T], cancel: Callable[[], object]) -> T:
        """All that is awaited passes here. `cancel` ends it and closes what it opened: it is called
        by `cut`, or now, where that came while nothing was awaited."""
        self._cancel = cancel
        if self._is_cut:
            cancel()
        try:
            return await what
        finally:
            self._cancel = None

    async def _serve(self) -> None:
        refused: Deny | Challenge | None
        decision = self._decided()
        match decision:
            case Allow(going):
                refused = await self._forward(going)
            case Deny() | Challenge():
                refused = decision
            case _:
                assert_never(decision)
        if refused is not None:
            await self._refuse(refused)
        if not self._is_cut:
            self._state = State.OVER

    def _decided(self) -> Allow[object] | Deny | Challenge:
        if isinstance(self._asked, Deny):
            return self._asked
        return self._kind.decide(self._asked, self._source, self._context.scope)

    async def _forward(self, going: object) -> Deny | None:
        kind = self._kind
        wait = self._pace.wait(kind.opens(self._asked))
        if wait:
            return self._of(kind.too_often, going, ceil(wait))
        incoming = self._client.incoming
        asked = None if incoming is None else incoming.head
        head = kind.head(going, self._source, self._id, asked)
        if isinstance(head, Deny):
            return head
        tries, sent = 1, b""
        while True:
            link = await self._link(going)
            if isinstance(link, Deny):
                return link
            self._enter(State.TRANSFER)
            if isinstance(kind.body, Stream):
                outcome = await self._stream(link, kind.body, going, head, sent)
            else:
                outcome = await self._join(link, kind.body, going, head)
            if not isinstance(outcome, Failed):
                return outcome
            if outcome.body is None or tries >= kind.tries(going, outcome.cause):
                return self._of(kind.unreachable, going)
            tries, sent = tries + 1, outcome.body
            await self._moment(RETRY_DELAY)

    def _of(self, deny: Deny, going: object, retry_after: int = 0) -> Deny:
        return evolve(deny, subject=self._kind.subject(going), retry_after=retry_after)

    async def _link(self, going: object) -> ClientConnection | Deny:
        kind, pool = self._kind, self._context.pool
        share = kind.share(self._source.tier)
        if not kind.queues and pool.full(share):
            return self._of(kind.too_often, going)
        self._enter(State.LINKING)
        try:
            acquired = pool.acquire(share)
            link = await self._wait(acquired, acquired.cancel)
        except BrokerUnreachable:
            return self._of(kind.unreachable, going)
        if self._is_cut or self._client.gone():
            pool.release(link, Proof.NONE)
            self.cut()
            raise CancelledError
        return link

    def _enter(self, state: State) -> None:
        if not self._is_cut:
            self._state = state

    async def _moment(self, seconds: float) -> None:
        passed: Deferred[None] = Deferred(lambda _: timer.cancel())
        timer = self._context.loop.callLater(seconds, passed.callback, None)
        await self._wait(passed, passed.cancel)

    async def _stream(
        self, link: ClientConnection, stream: Stream, going: object, head: bytes, sent: bytes
    ) -> Deny | Failed | None:
        incoming = self._client.incoming
        if incoming is None:
            raise RuntimeError("a body needs a request in HTTP")
        seen: list[Answered | Deny] = []

        def answer(head: ResponseHead) -> tuple[int, Headers] | relay.Refuse:
            seen.append(answered := self._kind.answer(going, self._source, head))
            if isinstance(answered, Deny):
                return relay.Refuse(answered.code)
            incoming.closes = incoming.closes or answered.close
            return answered.status, answered.headers

        framing, to_head = incoming.head.framing, incoming.head.method == b"HEAD"
        passed = Relay(
            incoming, link, head, framing, answer, sent, keep=stream.keep, to_head=to_head
        )
        proof = Proof.NONE
        try:
            done = passed.start()
            incoming.release(self)  # held since the try before
            outcome = await self._wait(done, lambda: passed.cut(_STOPPED))
            proof = shown(outcome, bool(seen), self._is_cut)
        finally:
            self._context.pool.release(link, proof)
        give_back_after(self._context.loop, passed.bytes_up + passed.bytes_down)
        match outcome:
            case Relayed() | Broken():
                return None
            case Unanswered() if seen and isinstance(seen[0], Deny):
                return seen[0]
            case Unanswered(why=Why(cause=Cause.NO_REQUEST)):
                incoming.abort()  # the client's own silence
                return None
            case Unanswered(why=why, body=body):
                incoming.hold(self)
                return Failed(why.cause, body)
            case _:
                assert_never(outcome)

    async def _join(
        self, link: ClientConnection, joined: Joined[Any], going: object, head: bytes
    ) -> Deny | Failed | None:
        opened: Deferred[TunnelEnd | ResponseHead | Why] = Deferred()
        found: TunnelEnd | ResponseHead | Why | None = None
        try:
            link.connect(head, _Opening(opened), opened.callback)
            found = await self._wait(opened, opened.cancel)
        finally:
            self._gave(link, found)
        match found:
            case TunnelEnd():
                await self._through(found, joined, going)
                return None
            case ResponseHead():
                answered = self._kind.answer(going, self._source, found)
                if isinstance(answered, Deny):
                    return answered
                return self._of(self._kind.unreachable, going)
            case Why(cause=cause):
                return Failed(cause, b"")
            case _:
                assert_never(found)

    def _gave(self, link: ClientConnection, found: TunnelEnd | ResponseHead | Why | None) -> None:
        """The link goes back to the pool, which closes it where nobody waited for an answer; unless
        it has become a tunnel."""
        if isinstance(found, TunnelEnd):
            self._context.pool.served(link)
        elif isinstance(found, ResponseHead):
            self._context.pool.release(link, Proof.ANSWERED)
        else:
            self._context.pool.release(link, Proof.NONE if self._is_cut else Proof.FAILED)

    async def _through(self, upstream: TunnelEnd, joined: Joined[Any], going: object) -> None:
        if self._is_cut:
            upstream.abort()
            return
        context = self._context
        client, said = self._client.tunnel()
        idle = joined.idle(context.scope.policy)
        opening = None if said else joined.opening(going)
        tunnel = Tunnel(context.loop, client, upstream, idle, opening)
        done, said = tunnel.start(said), b""  # not kept as long as the tunnel lasts
        end = await self._wait(done, lambda: tunnel.cut(_STOPPED))
        give_back_after(context.loop, end.bytes_up + end.bytes_down)
        if end.why is not None and end.why.cause is Cause.NOT_OPENED:
            self._report(self._of(joined.not_opened, going))

    async def _refuse(self, refused: Deny | Challenge) -> None:
        """A client that goes on asking for what is refused waits longer for each answer."""
        self._enter(State.REFUSING)
        braked = False
        if isinstance(refused, Challenge):
            if refused.presented:
                self._report(refused)
        elif refused.ours:
            self._report(refused)
            delay = self._pace.refused()
            if delay:
                braked = True
                await self._moment(delay)
        if not self._is_cut:
            if self._client.incoming is not None:
                self._client.incoming.release(self)
            told = Told(self._id, self._context.scope.policy, self._source.tier, braked)
            self._client.reply(self._kind.refuse(refused, told))

    def _report(self, refused: Deny | Challenge) -> None:
        self._context.report(self._kind.report(refused, self._source, self._id))


@define(eq=False)
class _Opening:
    """What the broker answers to a CONNECT that it does not open."""

    _found: Deferred[TunnelEnd | ResponseHead | Why]
    _head: ResponseHead | None = field(default=None, init=False)

    def response(self, head: ResponseHead) -> None:
        self._head = head

    def body(self, *pieces: Piece) -> None:
        """The head says it all."""

    def body_done(self) -> None:
        if self._head is not None:
            self._found.callback(self._head)

    def failed(self, why: Why) -> None:
        self._found.callback(why)
