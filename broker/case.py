"""One git request of one session: what was asked, how it is answered, what the audit says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import assert_never

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from audit.events import Decision, GitDecision, GitOutcome, PushDecision, RefChange
from audit.journal import JournalUnavailable
from audit.texts import octets
from broker.desk import Desk
from broker.gate import Asked
from broker.refusals import Reply, answer_probe, has_own_status, refuse, refuse_commands
from broker.sessions import Session
from gitwire.receivepack import Command, PushCommands
from gitwire.reportstatus import refuse_push
from gitwire.smarthttp import Advertise, Fetch, GitRequest, Push, Service
from netpolicy.codes import CODES
from netpolicy.explain import refusal_lines
from streams.http import Incoming

log = Logger()

# Git gets its answer early and goes on sending: what it sends is dropped, however much it is,
# until the connection's drain time is over.
DROP = 1 << 48


def _reason(code: str, more: str) -> str:
    return f"{CODES[code].text} ({code}){more}"


_REFS = {each: f"refs {each.value.removeprefix('git-')}" for each in Service}


def _op(request: GitRequest) -> str:
    match request:
        case Advertise(service=service):
            return _REFS[service]
        case Fetch():
            return "fetch"
        case Push():
            return "push"
        case _:
            assert_never(request)


class TooMuchToRecord(JournalUnavailable):
    """A session over what it may have written; it can come again later."""

    code = "G303"

    def __init__(self, wait: float) -> None:
        super().__init__("this session has had written all it may for now")
        self.retry = ceil(wait)


@define(eq=False)
class Case:
    """Answers and records; decides nothing."""

    desk: Desk
    session: Session
    incoming: Incoming
    asked: Asked
    request_id: str
    commands: PushCommands | None = None
    delay: float = 0.0  # before a refusal is told: the brake on who hammers at refused things
    op: str = field(init=False)
    tier: str = field(init=False)
    repo: str = field(init=False)
    began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        request = self.asked.request
        self.began = self.desk.now()
        self.op, self.tier = _op(request), self.asked.tier.value
        self.repo = f"{request.place.text}:{request.repository.text}"

    def lines(self, code: str) -> list[str]:
        braked = self.delay > 0
        return refusal_lines(code, self.request_id, self.asked.policy, self.asked.tier, braked)

    def refuse(self, code: str, retry: int = 0, more: str = "", close: bool = False) -> None:
        """Answers with a refusal in the shape that git shows for this request."""
        request, commands = self.asked.request, self.commands
        if isinstance(request, Push) and commands is not None and not has_own_status(code):
            self.refuse_refs(commands, code, _reason(code, more))
        else:
            self._reply(refuse(request, code, self.lines(code), self.request_id, retry), close)

    def refuse_refs(
        self,
        commands: PushCommands,
        code: str,
        reason: str | Mapping[str, str],
        odd: Sequence[str] = (),
    ) -> None:
        request = self.asked.request
        assert isinstance(request, Push)  # noqa: S101 - only pushes have commands
        lines = self.lines(code)
        self._reply(refuse_commands(request, commands, lines, reason, self.request_id, odd))

    def report(self, code: str, more: str) -> bytes:
        """The body of a push's refusal, for an answer whose head has gone already."""
        commands = self.commands or PushCommands()
        return refuse_push(commands, self.lines(code), _reason(code, more))

    def answer_probe(self) -> None:
        request = self.asked.request
        assert isinstance(request, Push)  # noqa: S101 - only pushes are probed
        self._reply(answer_probe(request, self.request_id))

    def _reply(self, reply: Reply, close: bool = False) -> None:
        if self.delay > 0:
            delay, self.delay = self.delay, 0.0
            self.desk.clock.callLater(delay, self._reply, reply, close)
            return
        self.incoming.discard(DROP)
        # A client that was told its session is over has nothing more to ask here.
        close = close or reply.status == 401
        self.incoming.reply(reply.status, reply.headers, reply.body, close=close)

    def record_allowed(self, rule: str) -> Deferred[None]:
        """Fires when it is on disk; fails with JournalUnavailable otherwise."""
        wait = self.session.denials.wait(self._lengths(len(self._commands)), self.desk.now())
        if wait:
            return fail(TooMuchToRecord(wait))
        recorded = self.desk.recorder.record(self._decision("allow", rule, None, None))
        return recorded.addCallback(lambda _: self._count("allow", ""))

    def record_denied(self, code: str, rule: str, reason: str) -> None:
        """A refusal takes effect whether or not it can be recorded.

        Of a push whose commands are known, while the session may have more written; of anything
        else in a flood only the number.
        """
        self._count("deny", code)
        denials, now = self.session.denials, self.desk.now()
        most = denials.refs_shown(len(self._commands), now)
        if self.commands is None:
            own = denials.own_record(code, now)
        else:
            own = denials.own_push_record(code, self._lengths(most), now)
        if not own:
            return
        event = self._decision("deny", rule or None, code, reason or None, most)
        self.desk.recorder.record(event).addErrback(self._not_recorded)

    def _not_recorded(self, failure: Failure) -> None:
        failure.trap(JournalUnavailable)
        what = failure.getErrorMessage()
        log.error("refusal {req} not recorded: {what}", req=self.request_id, what=what)

    def _count(self, decision: Decision, code: str) -> None:
        self.desk.metrics.decided(self.op, self.tier, decision, code)

    def _decision(
        self,
        decision: Decision,
        rule: str | None,
        code: str | None,
        reason: str | None,
        most: int | None = None,
    ) -> GitDecision | PushDecision:
        """What is allowed is written whole; of what is refused, in a flood, only `most` refs."""
        stored = self.session.stored
        if self.commands is None:
            return GitDecision(
                sandbox=stored.sandbox,
                session=stored.id,
                decision=decision,
                op=self.op,
                tier=self.tier,
                repo=self.repo,
                rule=rule,
                code=code,
                req=self.request_id,
                reason=reason,
            )
        return PushDecision(
            sandbox=stored.sandbox,
            session=stored.id,
            decision=decision,
            tier=self.tier,
            repo=self.repo,
            refs=_changes(self.commands, most),
            rule=rule,
            code=code,
            req=self.request_id,
            reason=reason,
        )

    @property
    def _commands(self) -> Sequence[Command]:
        return () if self.commands is None else self.commands.commands

    def _lengths(self, most: int) -> list[int]:
        return [octets(one.ref.text) for one in self._commands[:most]]

    def record_outcome(self, code: str | None, reason: str, up: int, down: int) -> None:
        stored, seconds = self.session.stored, self.desk.now() - self.began
        self.desk.metrics.ended(self.op, code or "", up, down, seconds)
        event = GitOutcome(
            sandbox=stored.sandbox,
            session=stored.id,
            op=self.op,
            repo=self.repo,
            bytes_up=up,
            bytes_down=down,
            ms=int(seconds * 1000),
            code=code,
            req=self.request_id,
            reason=reason or None,
        )
        try:
            self.desk.journal.record(event, durable=False)
        except JournalUnavailable as error:
            log.error("outcome of {req} not recorded: {what}", req=self.request_id, what=error.what)


def _changes(commands: PushCommands, most: int | None) -> tuple[RefChange, ...]:
    shown = commands.commands[:most]
    changes = [RefChange(one.ref.text, one.old.hex, one.new.hex) for one in shown]
    rest = len(commands.commands) - len(shown)
    return (*changes, RefChange(f"and {rest} more", "", "")) if rest else tuple(changes)
