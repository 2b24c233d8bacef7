"""A git request up to its decision. What is allowed goes on in `forwarding`.

No connection to an upstream is made before the request is wholly decided, which for a push means
after its commands are read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

from attrs import define, evolve, field

from broker.admission import Turn
from broker.case import Case
from broker.forwarding import Forwarding
from broker.gate import decide_commands, decide_request, decide_session, decide_workflows
from broker.push_commands import BadPush, CommandSink
from broker.routes import Server
from broker.running import Entry
from gitwire.framing import Length
from gitwire.receivepack import PushCommands
from gitwire.smarthttp import Push
from netpolicy.decision import Allow, Deny, PushDenied
from netpolicy.policy import Policy
from streams.timing import Timer, cancel


@define(eq=False)
class GitOperation:
    case: Case
    server: Server | None
    _sink: CommandSink | None = field(init=False, default=None)
    _forwarding: Forwarding | None = field(init=False, default=None)
    _turn: Turn | None = field(init=False, default=None)
    _waiting: Timer | None = field(init=False, default=None)
    _entry: Entry | None = field(init=False, default=None)
    _ends: list[Callable[[], None]] = field(init=False, factory=list)
    _over: bool = field(init=False, default=False)

    def run(self) -> None:
        """Session, then budgets, then scope; an ended session learns nothing else."""
        now, session = self.case.began, self.case.session
        session.requests += 1
        denied = decide_session(session.state, session.overdue(now))
        if denied is not None:
            self._deny(denied)
            return
        self._register()
        busy = self._busy(now)
        if busy is not None:
            self._throttle(*busy)
            return
        self._enter()
        verdict = decide_request(self.case.asked)
        match verdict:
            case Deny():
                self._deny(verdict)
            case Allow() if isinstance(self.case.asked.request, Push):
                self._read_commands(self._push)
            case Allow(rule):
                self._forward(rule)
            case _:
                assert_never(verdict)

    def _busy(self, now: float) -> tuple[str, int] | None:
        """Its own budget first: who is over it must not use up that of the others."""
        session, tier = self.case.session, self.case.asked.tier
        wait = session.budget.enter(tier, now)
        if wait:
            return "G303", wait
        wait = self.case.desk.admission.wait(session.owner, now)
        if wait:
            session.budget.leave(tier)
            return "B106", wait
        return None

    def _register(self) -> None:
        """From here on the operation ends with its session, its client or its time."""
        case = self.case
        own = self.server.config if self.server is not None else case.desk.routes.now.config
        timer = case.desk.clock.callLater(own.timeouts.operation, self.cut, "U101")
        self._entry = case.session.running.enter(self)
        self._ends = [self._entry.leave, partial(cancel, timer)]
        case.incoming.on_lost(self._client_lost)

    def _enter(self) -> None:
        """From here on it counts."""
        budget, tier = self.case.session.budget, self.case.asked.tier
        self._ends.append(lambda: budget.leave(tier))

    name = "git"
    busy = True

    def rescope(self, policy: Policy) -> str | None:
        """Decided anew as it was asked; what is not decided yet will be by the new policy."""
        before, commands = self.case.asked, self.case.commands
        asked = evolve(before, policy=policy)
        verdict = decide_request(asked)
        if isinstance(verdict, Deny):
            return verdict.code
        if commands is not None:
            pushed = decide_commands(asked, commands)
            if isinstance(pushed, PushDenied):
                return pushed.code
            if decide_workflows(before, commands) and not decide_workflows(asked, commands):
                return "G201"  # its credential may be one that this policy would not give out
        self.case.asked = asked
        return None

    def _throttle(self, code: str, wait: int) -> None:
        self._record_busy(code, wait)
        if isinstance(self.case.asked.request, Push):
            self._read_commands(lambda commands: self._refuse_busy(code, 0))
        else:
            self._refuse_busy(code, wait)

    def _refuse_busy(self, code: str, wait: int) -> None:
        self.case.refuse(code, wait)
        self._end(code, "")

    def _deny(self, denied: Deny) -> None:
        self.case.delay = self._brake(denied.code)
        self.case.record_denied(denied.code, denied.rule, denied.reason)
        self.case.refuse(denied.code)
        self._end(denied.code, denied.reason)

    def _brake(self, code: str) -> float:
        """Only what asking again cannot change counts."""
        brake, now = self.case.session.brake, self.case.desk.now()
        return brake.refused(now) if code.startswith(("G1", "G2")) else 0.0

    # A push: its commands first

    def _read_commands(self, then: Callable[[PushCommands], None]) -> None:
        def found(commands: PushCommands | BadPush) -> None:
            if self._over:
                return
            if isinstance(commands, BadPush):
                self._bad_push(commands)
            elif not commands.commands:
                self.case.answer_probe()
                self._end(None, "probe")
            else:
                self.case.commands = commands
                then(commands)

        self._sink = CommandSink(found)
        self.case.incoming.stream(self._sink)

    def _bad_push(self, bad: BadPush) -> None:
        case = self.case
        case.commands = bad.commands
        case.record_denied(bad.code, "", bad.what)
        if bad.commands is None:
            case.refuse(bad.code, close=True)
        else:
            case.refuse_refs(bad.commands, bad.code, f"{bad.what} ({bad.code})", bad.odd)
        self._end(bad.code, bad.what)

    def _push(self, commands: PushCommands) -> None:
        verdict = decide_commands(self.case.asked, commands)
        match verdict:
            case PushDenied(code, reasons, rule):
                self.case.delay = self._brake(code)
                self.case.record_denied(code, rule, "; ".join(sorted(set(reasons.values()))))
                self.case.refuse_refs(commands, code, reasons)
                self._end(code, "")
            case Allow() if self._too_large():
                self._deny(Deny("G301", "the push announces more than the limit"))
            case Allow(rule):
                self._forward(rule)
            case _:
                assert_never(verdict)

    def _too_large(self) -> bool:
        """A push that announces its size is refused before anything goes upstream."""
        framing = self.case.incoming.head.framing
        read = self._sink.read if self._sink is not None else 0
        limit = self.case.asked.policy.limits.push_max
        return isinstance(framing, Length) and framing.octets - read > limit

    # Onwards, and the end

    def _forward(self, rule: str) -> None:
        """When it is this session's turn; a push's pack waits where it is."""
        case = self.case
        case.incoming.hold(self)
        self._ends.append(lambda: case.incoming.release(self))
        self._turn = turn = Turn(case.session.owner, partial(self._go, rule))
        if not case.desk.admission.ask(turn):
            self._no_turn()
        elif not turn.running and not self._over:
            self._waiting = case.desk.clock.callLater(self._patience, self._no_turn)
            self._ends.append(partial(cancel, self._waiting))

    @property
    def _patience(self) -> int:
        return self.case.desk.routes.now.config.limits.queue

    def _no_turn(self) -> None:
        self._turned_away("B106", self._patience)

    def _record_busy(self, code: str, wait: int) -> None:
        self.case.record_denied(code, "", f"over a limit, told to wait {wait} s")

    def _turned_away(self, code: str, wait: int) -> None:
        self._record_busy(code, wait)
        self.case.refuse(code, wait)
        self._end(code, "no turn")

    def _go(self, rule: str) -> None:
        assert self.server is not None  # noqa: S101 - without a server nothing is allowed
        cancel(self._waiting)
        case = self.case
        repository = case.asked.request.repository.text
        governor = case.desk.governors.of(self.server, case.session, case.tier, repository)
        rest = governor.ask()
        if rest is not None:
            self._turned_away(rest.code, rest.seconds)
            return
        assert self._entry is not None  # noqa: S101 - what is not registered has no turn
        permits = self._entry, governor
        self._forwarding = Forwarding(case, self.server, *permits, self._sink, self._end)
        self._forwarding.start(rule)
        self.case.incoming.release(self)

    def _client_lost(self) -> None:
        if self._forwarding is not None:
            self._forwarding.client_lost()
        self._end(None, "the client left")

    def cut(self, code: str) -> None:
        """The session, what it may, or the operation's time is over: end what runs, at once."""
        if self._over:
            return
        if self._forwarding is not None:
            self._forwarding.stop(code)
        else:
            self.case.refuse(code)
            self._end(code, "stopped")

    def _end(self, code: str | None, reason: str) -> None:
        if not self._over:
            self._over = True
            ends, self._ends = self._ends, []
            for end in ends:
                end()
            turn, self._turn = self._turn, None
            # They know us: what is over must not wait for the collector, with a secret at hand.
            self._forwarding = self._sink = self._entry = None
            if turn is not None:
                self.case.desk.admission.leave(turn)
