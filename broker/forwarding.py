"""An allowed git request on its way to the upstream and back.

The audit record is on disk before anything else happens here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from audit.journal import JournalUnavailable
from broker.answers import AnswerFilter
from broker.case import DROP, Case
from broker.errors import Unavailable
from broker.gate import decide_workflows, is_write
from broker.git_stages import GitAnswer, GzippedRequest
from broker.governors import Governor
from broker.injection import upstream_head
from broker.providers.credential import Credential, Need
from broker.push_commands import CommandSink
from broker.responses import judge
from broker.routes import Server
from broker.running import Entry
from broker.upstream import Acquired, User
from gitwire.framing import Framing, Headers, Length
from gitwire.gzipped import GzipReader
from gitwire.http import ResponseHead
from gitwire.smarthttp import Advertise, Fetch, Push, response_type
from limits.quota import Pace
from streams.causes import Cause, Why
from streams.relay import Broken, Outcome, Refuse, Relay, Relayed, Side, Unanswered
from streams.stages import Quota, Size, Stage

log = Logger()

_FETCH_REQUEST_MAX = 64 << 20
_REPORT_MAX = 64 << 20
# What a compressed request may unpack to: object ids are half of random, so git's own shrink to
# half. Zeros shrink a thousandfold, and all others would wait while 64 KiB of them are unpacked.
_UNPACKED = 1 << 20
UNPACKED_TIMES = 16
_DOUBTFUL = ("U101", "U104", "U110", "S101", "G305", "G306")
# How often a transfer's rate is looked at. A server that thinks for long sends next to nothing
# meanwhile; only what the client holds up is held against it.
_PACE_SECONDS = 30.0
_OURS = {Cause.QUOTA: "G305", Cause.SLOW: "G306", Cause.TOO_FINE: "U104"}
# The upstream is gone or silent, as far as we can see; whatever else it did, it spoke.
_LOST = frozenset(
    {Cause.NOT_TAKEN, Cause.LOST_BEFORE_ANSWER, Cause.LOST, Cause.CUT, Cause.NO_ANSWER}
)
_UNSURE = "; it may have been applied: fetch and look"

Ended = Callable[[str | None, str], None]


@define(eq=False)
class Forwarding:
    case: Case
    server: Server
    _entry: Entry
    _governor: Governor
    _sink: CommandSink | None
    _ended: Ended
    _need: Need | None = field(init=False, default=None)
    _credential: Credential | None = field(init=False, default=None)
    _user: User | None = field(init=False, default=None)
    _unauthorised: bool = field(init=False, default=False)
    _tried_again: bool = field(init=False, default=False)
    _attempt: Deferred[Any] | None = field(init=False, default=None)
    _answers: AnswerFilter | None = field(init=False, default=None)
    _relay: Relay | None = field(init=False, default=None)
    _pacing: Any = field(init=False, default=None)
    _stopped: str | None = field(init=False, default=None)
    _over: bool = field(init=False, default=False)
    _is_push: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._is_push = isinstance(self.case.asked.request, Push)

    def start(self, rule: str) -> None:
        self.case.incoming.hold(self)
        recorded = self.case.record_allowed(rule)
        recorded.addCallbacks(self._recorded, self._unrecorded)
        recorded.addErrback(self._broken_inside)

    def _recorded(self, _: None) -> None:
        """The session may have ended, or the client left, while the disk was waited for."""
        if not self._over:
            self._begin()

    def _unrecorded(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, JournalUnavailable):
            failure.raiseException()
        log.error("nothing is allowed: {what}", what=error.what)
        if not self._over:
            more = f": again in {error.retry} s" if error.retry else ""
            self.case.refuse(error.code, error.retry, more)
            self._end(error.code, error.what)

    def _begin(self) -> None:
        """The credential first: without one there is nothing to connect for."""
        asked = self.case.asked
        self._need = Need(
            self._entry,
            self.server.config,
            asked.request.repository.text,
            is_write(asked.request),
            decide_workflows(asked, self.case.commands),
        )
        attempt = self.server.provider.credential(self._need)
        # Before its callbacks: a credential that is at hand begins the next attempt in them.
        self._attempt = attempt
        attempt.addCallbacks(self._equipped, self._unequipped)
        attempt.addErrback(self._broken_inside)

    def _equipped(self, credential: Credential) -> None:
        self._attempt = None
        if self._over:
            return
        self._credential = credential
        self._user = User(self.case.session.id, self.server, credential)
        try:
            kept = self.case.desk.upstreams.take(self._entry, self._user, self._repeatable)
        except Unavailable as error:
            self._await(fail(error))
            return
        self._await(self._dial() if kept is None else succeed(kept))

    def _unequipped(self, reason: Failure) -> None:
        """Whoever gives credentials out is no part of the upstream: it is not held against it."""
        if not self._over and isinstance(reason.value, Unavailable):
            log.error("no credential for {req}: {why}", req=self._id, why=reason.value.why)
        self._not_connected(reason)

    @property
    def _repeatable(self) -> bool:
        """A server may have closed an idle connection; only a GET can be sent again."""
        return isinstance(self.case.asked.request, Advertise)

    @property
    def _id(self) -> str:
        return self.case.request_id

    def _await(self, attempt: Deferred[Acquired]) -> None:
        self._attempt = attempt
        attempt.addCallbacks(self._connected, self._unreachable).addErrback(self._broken_inside)

    def _dial(self) -> Deferred[Acquired]:
        return Deferred.fromCoroutine(self.case.desk.upstreams.dial(self._entry, self.server))

    def _unreachable(self, reason: Failure) -> None:
        error = reason.value
        if not self._over and isinstance(error, Unavailable) and error.code == "U101":
            self._governor.unreachable()
        self._not_connected(reason)

    def _not_connected(self, reason: Failure) -> None:
        reason.trap(Unavailable, CancelledError)
        if not self._over and isinstance(reason.value, Unavailable):
            self._give_up(reason.value.code, reason.value.why)

    def _connected(self, acquired: Acquired) -> None:
        self._attempt = None
        if not acquired.reused:
            self._governor.reached()
        if self._over or self._credential is None:
            self._give_back(acquired)
            return
        prelude, framing = self._outgoing()
        authority = self.server.config.authority
        head = upstream_head(self.case.asked.request, authority, self._credential, framing)
        self._relay = self._make_relay(acquired, head, framing, prelude)
        self._watch(self._relay, Pace(self.case.desk.routes.now.config.limits.minimum_rate))
        done = self._relay.start()
        done.addCallback(self._relayed, acquired)
        done.addErrback(self._broken_inside)
        self.case.incoming.release(self)

    def _watch(self, relay: Relay, pace: Pace) -> None:
        """Ends a transfer that its client keeps alive with a trickle."""
        moved = relay.bytes_up + relay.bytes_down
        if pace.look(self.case.desk.now(), moved, owed=relay.waits_for_client):
            later = self.case.desk.clock.callLater
            self._pacing = later(_PACE_SECONDS, self._watch, relay, pace)
        else:
            relay.end(Why(Cause.SLOW))

    def _outgoing(self) -> tuple[bytes, Framing]:
        """Our own spelling of a push's commands, and the framing of what goes up in all."""
        framing = self.case.incoming.head.framing
        if self._sink is None:
            return b"", framing
        commands = self._spelled()
        if isinstance(framing, Length):
            framing = Length(framing.octets - self._sink.read + len(commands))
        return commands + self._sink.leftover, framing

    def _spelled(self) -> bytes:
        return self.case.commands.serialise() if self.case.commands is not None else b""

    def _make_relay(
        self, acquired: Acquired, head: bytes, framing: Framing, prelude: bytes
    ) -> Relay:
        budget = self.case.session.bytes
        answers = self._answers = AnswerFilter(self._answer_limit, report=self._is_push)
        pack = self.case.asked.policy.limits.push_max
        most = pack + len(self._spelled()) if self._is_push else _FETCH_REQUEST_MAX
        up = (Quota(budget, Why(Cause.QUOTA)), Size(most, Cause.REQUEST_TOO_LARGE))
        return Relay(
            self.case.incoming,
            acquired.connection,
            head,
            framing,
            self._answer,
            prelude,
            up=(*self._packed(), *up),
            down=(GitAnswer(answers, budget, self._last_words),),
            discard_limit=DROP,
        )

    def _packed(self) -> tuple[Stage, ...]:
        request = self.case.asked.request
        if not isinstance(request, Fetch) or not request.gzip:
            return ()
        framing = self.case.incoming.head.framing
        octets = framing.octets if isinstance(framing, Length) else _UNPACKED
        most = min(_FETCH_REQUEST_MAX, _UNPACKED + UNPACKED_TIMES * octets)
        return (GzippedRequest(GzipReader(most)),)

    def _last_words(self, why: Why) -> bytes | None:
        """How an answer that has begun can be ended in words, if it can."""
        code = self._code_of(why.cause)
        if self._relay is None or self._answers is None:
            return None
        if not self._is_push:
            return self._answers.farewell(self.case.lines(code))
        if self._answers.spoken:
            return None
        return self.case.report(code, self._doubt(code, self._relay.bytes_up))

    def _code_of(self, cause: Cause) -> str:
        if cause is Cause.STOPPED:
            return self._stopped or "U101"
        if cause in _OURS:
            return _OURS[cause]
        if cause is Cause.ANSWER_TOO_LARGE:
            return "G302"
        if cause is Cause.REQUEST_TOO_LARGE:
            return "G301" if self._is_push else "G302"
        return "U101" if cause in _LOST else "U104"

    def _doubt(self, code: str, up: int) -> str:
        doubtful = code in _DOUBTFUL or self._stopped is not None
        return _UNSURE if self._is_push and up and doubtful else ""

    @property
    def _answer_limit(self) -> int:
        return _REPORT_MAX if self._is_push else self.case.asked.policy.limits.fetch_max

    def _answer(self, head: ResponseHead) -> tuple[int, Headers] | Refuse:
        """The head the sidecar sees: of the upstream's own, only its meaning is left."""
        request = self.case.asked.request
        self._governor.answered(head)
        self.case.desk.metrics.upstream(self.server.config.name, head.status)
        code = judge(head, request, self._answer_limit)
        if code is not None:
            log.info("upstream answered {status} to {req}", status=head.status, req=self._id)
            self._unauthorised = head.status == 401
            return Refuse(code)
        return 200, (
            (b"Content-Type", response_type(request)),
            (b"Cache-Control", b"no-cache"),
            (b"Gitmoat-Request-Id", self._id.encode()),
        )

    # The end

    def _relayed(self, outcome: Outcome, acquired: Acquired) -> None:
        if self._pacing.active():
            self._pacing.cancel()
        self._give_back(acquired, outcome)
        match outcome:
            case Relayed(_, up, down, ended):
                self._went_through(ended, up, down)
            case Unanswered(why, refused, up):
                self._unanswered(why, refused, up, acquired)
            case Broken(side, why, up, down):
                self._end(_code_of_cut(side, why.cause, self._stopped), why.text, up, down)
            case _:
                assert_never(outcome)

    def _give_back(self, acquired: Acquired, outcome: Outcome | None = None) -> None:
        """Nobody follows a push, or an answer that we had to end ourselves."""
        ended = isinstance(outcome, Relayed) and outcome.ended is not None
        pushed = self._is_push and outcome is not None
        if pushed or ended or self._user is None:
            acquired.connection.close()
        else:
            self.case.desk.upstreams.release(self._user, acquired.connection)

    def _went_through(self, ended: Why | None, up: int, down: int) -> None:
        if ended is None:
            self.case.session.used = self.case.desk.now()
        self._end(self._code_of(ended.cause) if ended is not None else None, "", up, down)

    def _unanswered(self, why: Why, refused: Refuse | None, up: int, acquired: Acquired) -> None:
        if refused is not None and self._another_credential():
            self._relay = None
            self._begin()
        elif refused is not None:
            self._give_up(refused.code or "U104", why.text, up)
        elif self._may_repeat(acquired, why.cause):
            self._relay = None
            self._await(self._dial())
        else:
            code = self._code_of(why.cause)
            if code == "U101" and self._stopped is None:
                self._governor.lost()
            self._give_up(code, why.text, up)

    def _may_repeat(self, acquired: Acquired, cause: Cause) -> bool:
        """A kept connection that was closed meanwhile; one that is only silent stays so."""
        again = acquired.reused and self._repeatable
        return again and cause is not Cause.NO_ANSWER and cause not in _OURS

    def _another_credential(self) -> bool:
        """After a 401 the provider is told; a GET is tried once more with what it has then."""
        if not self._unauthorised or self._need is None or self._credential is None:
            return False
        self._unauthorised = False
        again = self.server.provider.refused(self._need, self._credential)
        first, self._tried_again = not self._tried_again, True
        return again and first and self._repeatable

    def _give_up(self, code: str, reason: str, up: int = 0) -> None:
        self.case.refuse(code, self._governor.resting, more=self._doubt(code, up))
        self._end(code, reason, up)

    def _broken_inside(self, failure: Failure) -> None:
        """A fault of ours ends this one request, and shows in the log."""
        log.failure("request {req} failed", failure, req=self._id)
        self.case.incoming.abort()
        self._end("B101", "internal error")

    def client_lost(self) -> None:
        """Once it runs, the relay hears of it by itself."""
        if self._relay is None:
            self._end(None, "the client left")
            self._cancel()

    def stop(self, code: str) -> None:
        self._stopped = code
        if self._relay is not None:
            self._relay.cut(Why(Cause.STOPPED))
            return
        self.case.refuse(code)
        self._end(code, Why(Cause.STOPPED).text)
        self._cancel()

    def _cancel(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()

    def _end(self, code: str | None, reason: str, up: int = 0, down: int = 0) -> None:
        if not self._over:
            self._over = True
            self.case.incoming.release(self)
            self.case.record_outcome(code, reason, up, down)
            self._relay = None  # it knows us
            # Now: an attempt that was cancelled may be known to somebody for longer than this.
            self._need = self._credential = self._user = None
            self._ended(code, reason)


def _code_of_cut(side: Side, cause: Cause, stopped: str | None) -> str | None:
    match side:
        case Side.CLIENT:
            return None
        case Side.UPSTREAM:
            return "U101"
        case Side.US:
            return _OURS.get(cause) or stopped or "G302"
        case _:
            assert_never(side)
