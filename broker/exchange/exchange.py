"""One request of a session, of whatever kind, from its decision to its outcome.

Nothing is resolved, dialled or taken before it is wholly decided and on record. One coroutine does
one step after the other, and `cut` ends it in each: what is awaited is cancelled, and closes what
it has opened. A cut that comes while the coroutine itself runs is seen before it waits for anything
else. Bytes pass beneath, in the transfer.

A credential is never a local variable here: a coroutine into which an exception is thrown is freed
by the collector only, with everything it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, assert_never

from attrs import define, evolve, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.context import Context
from broker.credentials.providers.credential import Credential, CredentialRequest
from broker.errors import Unavailable
from broker.exchange.decisions import decide_session
from broker.exchange.kind import (
    Allow,
    Answered,
    Deny,
    End,
    Joint,
    Kind,
    Need,
    Prefix,
    State,
    Transfer,
    Verdict,
)
from broker.exchange.notices import Notices
from broker.exchange.prefix_sink import PrefixSink
from broker.exchange.refusals import Reply
from broker.sessions.admission import Ticket
from broker.sessions.running import Entry
from broker.sessions.sessions import Session
from broker.upstream.kept import User
from broker.upstream.limiters import Limiter, Unlimited
from broker.upstream.route import Route
from gitmoat.audit.journal import JournalUnavailable
from gitmoat.net.causes import Cause, Why
from gitmoat.net.hangups import Watch
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.ends import Incoming
from gitmoat.net.relay import Outcome, Relayed, Unanswered
from gitmoat.net.timing import Timer, cancel
from gitmoat.net.tunnel_relay import Ended
from gitmoat.wire.http.heads import ResponseHead
from netpolicy.policy import Policy

log = Logger()

T = TypeVar("T")

_TOO_LATE = "U101"
_UNAUTHORISED = 401
_PAUSE = "pause"  # why a body is held
# The far end took the request, or what was wrong with it was ours or its client's.
_NOT_CLOSED = frozenset(
    {Cause.NO_ANSWER, Cause.NO_REQUEST, Cause.QUOTA, Cause.SLOW, Cause.TOO_FINE}
)


class _Cut(Exception):
    """It was cut: no further step is taken."""


@define(eq=False)
class Exchange:
    _context: Context
    _session: Session
    _incoming: Incoming
    request: Kind
    _state: State = field(init=False, default=State.DECIDING)
    _why: Why | None = field(init=False, default=None)  # it was cut
    _awaited: Deferred[Any] | None = field(init=False, default=None)
    _transfer: Transfer | None = field(init=False, default=None)
    _policy: Policy = field(init=False)
    _allowed: Allow | None = field(init=False, default=None)
    _began: float = field(init=False)
    _enclosed: bool = field(init=False, default=False)  # its outcome will be told
    _notices: Notices = field(init=False)
    # What has to be given back
    _entry: Entry | None = field(init=False, default=None)
    _timer: Timer | None = field(init=False, default=None)
    _watch: Watch | None = field(init=False, default=None)
    _entered: bool = field(init=False, default=False)
    _ticket: Ticket | None = field(init=False, default=None)
    # What is needed while it is carried out
    _prefix: Prefix | None = field(init=False, default=None)
    _limiter: Limiter = field(init=False, factory=Unlimited)
    _wanted: CredentialRequest | None = field(init=False, default=None)
    _credential: Credential | None = field(init=False, default=None)
    _status: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._policy, self._began = self._session.policy, self._context.now()
        labels = self.request.labels
        self._notices = Notices(self._context, self._session, self._incoming, labels, self._began)

    def start(self) -> None:
        Deferred.fromCoroutine(self._run()).addErrback(self._fault)

    # As the session's registry sees it

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def busy(self) -> bool:
        return self.request.counts or self._state is State.JOINED

    @property
    def awaited(self) -> bool:
        return self.request.counts

    def rescope(self, policy: Policy) -> str | None:
        """Decided anew as it was asked; what is not decided yet will be by the new policy."""
        before, self._policy = self._policy, policy
        code = self.request.rescope(before, policy, self._allowed, self._context.routes.now)
        return code or None

    def cut(self, code: str) -> None:
        """The session, what it may, or the request's time is over: end what runs, at once."""
        self._end_by(Why(Cause.STOPPED, code=code))

    def _client_lost(self) -> None:
        """A transfer hears of it by itself."""
        if self._state is not State.JOINED:
            self._end_by(Why(Cause.CLIENT_LOST))

    def _left(self) -> None:
        """Nobody reads the end of its connection, which would stay as long as the body waits."""
        if self._state not in (State.JOINED, State.OVER):
            self._incoming.abort()

    def _end_by(self, why: Why) -> None:
        """The state first: what is cancelled, or returns, goes no further."""
        if self._why is not None or self._state is State.OVER:
            return
        self._why, self._state = why, State.CUT
        if self._transfer is not None:
            self._transfer.cut(why)
        elif self._awaited is not None:
            self._awaited.cancel()

    # Waiting

    async def _until(
        self, awaited: Deferred[T], drop: Callable[[T], object] = lambda found: None
    ) -> T:
        """What is awaited, unless it is cut before; `drop` closes what came too late."""
        self._awaited = awaited
        if self._why is not None:
            awaited.cancel()
        try:
            found = await awaited
        except CancelledError:
            if self._why is None:
                raise
            raise _Cut from None
        finally:
            self._awaited = None
        if self._why is not None:
            drop(found)
        self._go_on()
        return found

    def _go_on(self) -> None:
        """Nothing begins any more of what was cut while this was running."""
        if self._why is not None:
            raise _Cut

    def _enter_state(self, state: State) -> None:
        self._go_on()
        self._state = state
        self._enclosed = self._enclosed or state is self.request.encloses

    # One step after the other

    async def _run(self) -> None:
        try:
            allow = await self._decided()
            if allow is not None:
                self._allowed = allow
                await self._carry_out(allow)
        except _Cut:
            self._tell_cut()
        finally:
            self._leave()

    async def _decided(self) -> Allow | None:
        """None when it was answered here."""
        session, now = self._session, self._began
        session.requests += self.request.counts
        denied = decide_session(session.state, session.overdue(now))
        if denied is not None:
            self._deny(Deny(denied.code, denied.reason, denied.rule))
            return None
        self._register()
        busy = await self._enter("") if self.request.limits_first else None
        if busy is not None:
            self._notices.record_denied(self.request, busy)
        verdict: Verdict = busy or await self._decide()
        prefix = self.request.prefix(self._policy)
        if prefix is not None and (busy is not None or isinstance(verdict, Need)):
            await self._read(prefix)
            verdict = self.request.at_once() or busy or await self._decide()
        if isinstance(verdict, Allow) and not self.request.limits_first:
            verdict = await self._enter(verdict.rule) or verdict
        match verdict:
            case Allow():
                return verdict
            case Deny():
                self._deny(verdict, recorded=verdict is busy)
            case Answered(reply):
                self._notices.reply(reply)
            case Need():
                raise RuntimeError("it needs to read more, and reads nothing")
            case _:
                assert_never(verdict)
        return None

    async def _decide(self) -> Verdict:
        """Others have their turn between its steps; another policy begins anew."""
        while True:
            policy, routes = self._policy, self._context.routes.now
            for verdict in self.request.deciding(policy, routes):
                if verdict is not None:
                    return verdict
                await self._wait(0)
                if self._policy is not policy or self._context.routes.now is not routes:
                    break

    def _register(self) -> None:
        """From here on it ends with its session, its client or its time."""
        self._entry = self._session.running.enter(self)
        seconds = self.request.seconds(self._context.routes.now.config)
        if seconds is not None:
            self._timer = self._context.clock.callLater(seconds, self.cut, _TOO_LATE)
        self._incoming.on_lost(self._client_lost)
        if self._why is None and not self._incoming.body_ended:
            # A body that has to wait is not read, and hides the end behind it.
            peer: Any = self._incoming.peer
            self._watch = self._context.hangups.watch(peer.fileno(), self._left)

    async def _enter(self, rule: str) -> Deny | None:
        """A client that is over its rate waits for its answer, unless that would be too long."""
        found = self.request.enter(self._session, self._context.admission, self._began, rule)
        if isinstance(found, Deny):
            return found
        self._entered = True
        if found:
            await self._wait(found)
        return None

    async def _wait(self, seconds: float) -> None:
        timer: Any = None
        passed: Deferred[None] = Deferred(lambda _: cancel(timer))
        timer = self._context.clock.callLater(seconds, passed.callback, None)
        self._incoming.hold(_PAUSE)
        try:
            await self._until(passed)
        finally:
            self._incoming.release(_PAUSE)

    async def _read(self, prefix: Prefix) -> None:
        """What comes behind the prefix waits where it is."""
        sink = PrefixSink(prefix, partial(self._incoming.hold, self))
        self._incoming.stream(sink)
        found = await self._until(sink.done)
        self._prefix = prefix
        self.request = self.request.read(prefix, found)

    async def _carry_out(self, allow: Allow) -> None:
        self._incoming.hold(self)
        if self.request.queued and not await self._has_turn():
            return
        self._limiter = self.request.limiter(self._context.limiters, self._session)
        rest = self._limiter.ask()
        if rest is not None:
            self._turn_away(rest.code, rest.seconds)
            return
        end = End("B101", "internal error")
        try:
            self._enter_state(State.RECORDING)
            await self._record(allow)
            end = await self._exchanged(allow)
        except _Cut:
            end = self._tell_cut()
        except JournalUnavailable as error:
            log.error("nothing is allowed: {what}", what=error.what)
            more = f": again in {error.retry} s" if error.retry else ""
            tell = Deny(error.code, retry=error.retry, more=more)
            end = End(error.code, error.what, tell=tell)
            self._refuse(tell)
        except Unavailable as error:
            end = self._settled(self.request.unavailable(error))
        finally:
            if self._enclosed:
                self._notices.record_end(self.request, end)

    async def _has_turn(self) -> bool:
        config, admission = self._context.routes.now.config, self._context.admission
        ready: Deferred[None] = Deferred()
        self._ticket = Ticket(self._session.owner, partial(ready.callback, None))
        if admission.ask(self._ticket):
            if self._ticket.running:  # as most are at once: a timer costs more than all else here
                return True
            clock: Any = self._context.clock
            try:
                await self._until(ready.addTimeout(config.limits.queue, clock))
            except TimedOut:
                pass
            else:
                return True
        self._turn_away("B106", config.limits.queue)
        return False

    async def _record(self, allow: Allow) -> None:
        event = self.request.record_allowed(self._session, allow, self._context.now())
        if event is None:
            return
        if self.request.synced_beside:
            await self._until(self._context.recorder.record(event))
        else:
            self._context.journal.record(event, durable=True)
        self.request.recorded(self._session)
        self._notices.count("allow", "")

    async def _exchanged(self, allow: Allow) -> End:
        """A request that can be repeated is sent once more where the first time says nothing: with
        another credential, or on a new connection in place of one that was kept."""
        await self._authorise()
        new_credential, kept = self.request.repeatable, True
        while True:
            far = await self._connect(allow, kept)
            outcome = await self._transferred(far)
            if self._is_refused(outcome) and new_credential:
                new_credential, kept = False, True
                await self._authorise()
            elif self._may_repeat(far, outcome):
                kept = False
            else:
                return self._settled(self._ended(outcome))

    async def _authorise(self) -> None:
        """The credential first: without one there is nothing to connect for."""
        server, entry = self.request.server, self._entry
        if server is None or entry is None:
            return
        self._enter_state(State.CONNECTING)
        self._wanted = self.request.credential_request(entry, self._policy)
        try:
            self._credential = await self._until(server.provider.credential(self._wanted))
        except Unavailable as error:
            log.error("no credential for {req}: {why}", req=self.request.request_id, why=error.why)
            raise

    async def _connect(self, allow: Allow, kept: bool) -> FarEnd:
        self._enter_state(State.CONNECTING)
        assert self._entry is not None  # noqa: S101 - it was registered
        context, request = self._context, self.request
        route = request.route(context.routes.now, self._policy, allow)
        found = self._kept() if kept else None
        if found is not None:
            return FarEnd(found, route, reused=True)
        dialling = context.dialler.tunnel if request.tunnelled else context.dialler.http
        try:
            opening: Deferred[Any] = Deferred.fromCoroutine(dialling(route, self._entry))
            made = await self._until(opening, drop=lambda late: late.abort())
        except Unavailable as error:
            if error.code == route.unreachable[0]:
                self._limiter.unreachable()
            raise
        self._limiter.reached()
        return FarEnd(made, route, reused=False)

    def _kept(self) -> ClientConnection | None:
        """Of this session and credential; Unavailable when this has been cut."""
        user, entry = self._user(), self._entry
        if user is None or entry is None:
            return None
        return self._context.upstreams.take(entry, user, self.request.repeatable)

    def _user(self) -> User | None:
        server, credential = self.request.server, self._credential
        if server is None or credential is None:
            return None
        return User(self._session.id, server, credential)

    async def _transferred(self, far: FarEnd) -> Outcome | Ended | Deny:
        outcome: Outcome | Ended | None = None
        try:
            self._go_on()
            joined = self._joined(far)
            if isinstance(joined, Deny):
                return joined
            self._enter_state(State.JOINED)
            self._transfer = joined
            started = joined.start()
            self._incoming.release(self)
            outcome = await started
        finally:
            self._transfer = None
            self._give_back(far, outcome)
        return outcome

    def _joined(self, far: FarEnd) -> Transfer | Deny:
        self._status = 0
        context = self._context
        joint = Joint(
            clock=context.clock,
            now=context.now,
            incoming=self._incoming,
            far=far.connection,
            route=far.route,
            session=self._session,
            policy=self._policy,
            minimum_rate=context.routes.now.config.limits.minimum_rate,
            credential=self._credential,
            prefix=self._prefix,
            answer=self._answer,
        )
        return self.request.join(joint)

    def _answer(self, head: ResponseHead) -> None:
        """Heard of every answer, before it is passed on or refused."""
        self._status = head.status
        self._limiter.answered(head)
        if self.request.server is not None:
            self._context.metrics.upstream(self.request.server.config.name, head.status)

    def _give_back(self, far: FarEnd, outcome: Outcome | Ended | None) -> None:
        """A connection serves another request of its user when this one left it clean."""
        user = self._user()
        if user is not None and outcome is not None and self.request.leaves_clean(outcome):
            self._context.upstreams.release(user, far.connection)
        elif isinstance(far.connection, ClientConnection):
            far.connection.close()
        elif outcome is None:
            far.connection.abort()

    def _is_refused(self, outcome: Outcome | Ended | Deny) -> bool:
        """After a 401 the provider is told; it says whether it may have another credential."""
        server, wanted, credential = self.request.server, self._wanted, self._credential
        refused = isinstance(outcome, Unanswered) and outcome.refused is not None
        if not refused or self._status != _UNAUTHORISED:
            return False
        if server is None or wanted is None or credential is None:
            return False
        return server.provider.refused(wanted, credential)

    def _may_repeat(self, far: FarEnd, outcome: Outcome | Ended | Deny) -> bool:
        """On a kept connection that was closed meanwhile; one that is only silent stays so."""
        if not isinstance(outcome, Unanswered) or outcome.refused is not None:
            return False
        return far.reused and self.request.repeatable and outcome.why.cause not in _NOT_CLOSED

    # The end

    def _ended(self, outcome: Outcome | Ended | Deny) -> End:
        if isinstance(outcome, Deny):
            return End(outcome.code, tell=outcome)
        if isinstance(outcome, Unanswered):
            why, status = outcome.why.text, self._status
            log.info("{req}: {status} {why}", req=self.request.request_id, status=status, why=why)
        end = self.request.end(outcome)
        if end.lost:
            self._limiter.lost()
        if isinstance(outcome, Relayed) and outcome.ended is None:
            self._session.used = self._context.now()
        return end

    def _settled(self, end: End) -> End:
        """What the client, and the audit, have still to be told of it."""
        if end.denied is not None:
            self._notices.record_denied(self.request, end.denied)
        if end.tell is not None:
            self._refuse(evolve(end.tell, retry=self._limiter.resting))
        if end.hangs_up:
            self._incoming.abort()
        return end

    def _tell_cut(self) -> End:
        why = self._why
        if why is None or why.cause is Cause.CLIENT_LOST:
            return End(reason="the client left")
        code = why.code or _TOO_LATE
        self._refuse(Deny(code))
        return End(code, why.text)

    def _leave(self) -> None:
        """Whatever was taken is given back, once: nothing else leads here."""
        self._state = State.OVER
        if self._entry is not None:
            self._entry.leave()
        cancel(self._timer)
        if self._watch is not None:
            self._context.hangups.forget(self._watch)
        if self._entered:
            self.request.leave(self._session)
        self._incoming.release(self)
        ticket = self._ticket
        # Break the reference cycles now, so that the credential is freed before the collector runs.
        self._entry = self._timer = self._watch = self._ticket = self._prefix = None
        self._wanted = self._credential = None
        if ticket is not None:
            self._context.admission.leave(ticket)

    def _fault(self, failure: Failure) -> None:
        """A fault of ours ends this one request, and shows in the log."""
        log.failure("request {req} failed", failure, req=self.request.request_id)
        self._incoming.abort()

    # What is told of it

    def _turn_away(self, code: str, wait: int) -> None:
        self._deny(Deny(code, f"over a limit, told to wait {wait} s", retry=wait))

    def _deny(self, deny: Deny, recorded: bool = False) -> None:
        self._notices.deny(self.request, self._policy, deny, recorded)

    def _refuse(self, deny: Deny) -> None:
        self._notices.refuse(self.request, self._policy, deny)


@frozen
class FarEnd:
    """The far end's connection, and how it was reached."""

    connection: Any  # a ClientConnection, or the end of a tunnel
    route: Route
    reused: bool


def serve(context: Context, session: Session, incoming: Incoming) -> bool:
    """Whether it is a request of any kind that this broker knows; Malformed is its listener's."""
    for kind in context.kinds:
        found = kind.classify(incoming.head, context.routes.now, session.policy)
        if isinstance(found, Reply):
            incoming.reply(found.status, found.headers, found.body)
            return True
        if found is not None:
            Exchange(context, session, incoming, found).start()
            return True
    return False
