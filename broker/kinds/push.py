"""A push: its commands are read, decided and sent in our own spelling; its pack streams behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from attrs import evolve, frozen

from broker.exchange.decisions import (
    decide_commands,
    decide_request,
    decide_workflows,
    deciding_commands,
)
from broker.exchange.kind import Allow, Answered, Deny, Joint, Need, Prefix, Verdict
from broker.exchange.refusals import Reply, answer_probe, has_own_status, refuse_commands
from broker.kinds.git import Git
from broker.kinds.git_answers import AnswerFilter
from broker.kinds.push_commands import BadPush, CommandsReader
from broker.sessions.sessions import Session
from broker.upstream.routes import Routes
from gitmoat.audit.events import Decision, GitDecision, PushDecision, RefChange
from gitmoat.audit.texts import octets
from gitmoat.codes import CODES
from gitmoat.net.causes import Cause, Why
from gitmoat.net.relay import Outcome
from gitmoat.net.tunnel_relay import Ended
from gitmoat.wire.git.receivepack import Command, PushCommands
from gitmoat.wire.git.report_status import refuse_push
from gitmoat.wire.git.smarthttp import GitRequest, Push
from gitmoat.wire.http.framing import Framing, Length
from netpolicy.decision import Allow as Allowed
from netpolicy.decision import Deny as Denied
from netpolicy.decision import PushDenied
from netpolicy.policy import Policy

_REPORT_MAX = 64 << 20
_DOUBTFUL = ("U101", "U104", "U110", "S101", "G305", "G306")
_UNSURE = "; it may have been applied: fetch and look"


@frozen(eq=False, kw_only=True)
class GitPush(Git):
    too_large: ClassVar[str] = "G301"
    op: ClassVar[str] = "push"

    commands: PushCommands | None = None
    bad: BadPush | None = None
    taken: int = 0  # octets of the body that the commands took

    @classmethod
    def serves(cls, request: GitRequest) -> bool:
        return isinstance(request, Push)

    @property
    def _push(self) -> Push:
        return cast(Push, self.request)

    # Deciding

    def decide(self, policy: Policy, routes: Routes) -> Verdict:
        return next(each for each in self.deciding(policy, routes) if each is not None)

    def deciding(self, policy: Policy, routes: Routes) -> Iterator[Verdict | None]:
        verdict = super().decide(policy, routes)
        if isinstance(verdict, Deny):
            yield verdict
        elif self.commands is None:
            yield Need()
        else:
            for pushed in deciding_commands(self.asked(policy), self.commands):
                yield None if pushed is None else self._judged(pushed, policy)

    def _judged(self, pushed: Allowed | PushDenied, policy: Policy) -> Verdict:
        if isinstance(pushed, PushDenied):
            reasons = "; ".join(sorted(set(pushed.reasons.values())))
            return _refused(pushed, reasons)
        if self._announces_too_much(policy):
            return Deny("G301", "the push announces more than the limit")
        return Allow(pushed.rule)

    def _announces_too_much(self, policy: Policy) -> bool:
        """A push that announces its size is refused before anything goes upstream."""
        framing = self.head.framing
        return isinstance(framing, Length) and framing.octets - self.taken > policy.limits.push_max

    def rescope(self, before: Policy, after: Policy, allowed: Allow | None, routes: Routes) -> str:
        asked, commands = self.asked(after), self.commands
        verdict = decide_request(asked)
        if isinstance(verdict, Denied):
            return verdict.code
        if commands is None:
            return ""
        pushed = decide_commands(asked, commands)
        if isinstance(pushed, PushDenied):
            return pushed.code
        # Its credential may be one that this policy would not give out.
        return "G201" if self.workflows(before) and not self.workflows(after) else ""

    def prefix(self, policy: Policy) -> CommandsReader:
        return CommandsReader(policy.limits.push_refs)

    def read(self, prefix: Prefix, found: PushCommands | BadPush) -> GitPush:
        taken = cast(CommandsReader, prefix).read
        if isinstance(found, BadPush):
            return evolve(self, commands=found.commands, bad=found, taken=taken)
        return evolve(self, commands=found, taken=taken)

    def at_once(self) -> Deny | Answered | None:
        """Git sends `0000` alone before a large push, to find out whether it must authenticate."""
        bad = self.bad
        if bad is not None and bad.commands is None:
            return Deny(bad.code, bad.what, close=True)
        if bad is not None:
            return Deny(bad.code, bad.what, refs=f"{bad.what} ({bad.code})")
        if not self._commands:
            return Answered(answer_probe(self._push, self.request_id))
        return None

    def workflows(self, policy: Policy) -> bool:
        return decide_workflows(self.asked(policy), self.commands)

    # What is told and recorded

    def refuse(self, deny: Deny, policy: Policy, braked: bool) -> Reply:
        commands, code = self.commands, deny.code
        reason = _reason(code, deny.more) if deny.refs is None else deny.refs
        if commands is None or (deny.refs is None and has_own_status(code)):
            return super().refuse(deny, policy, braked)
        odd = () if self.bad is None else self.bad.odd
        lines = self.lines(code, policy, braked, deny.hint)
        return refuse_commands(self._push, commands, lines, reason, self.request_id, odd)

    @property
    def _commands(self) -> tuple[Command, ...]:
        return () if self.commands is None else tuple(self.commands.commands)

    def ref_lengths(self, most: int | None = None) -> list[int]:
        return [octets(one.ref.text) for one in self._commands[:most]]

    def record_denied(
        self, session: Session, deny: Deny, now: float
    ) -> GitDecision | PushDecision | None:
        """While the session may have more written; of too many, only some of its refs."""
        if self.commands is None:
            return super().record_denied(session, deny, now)
        most = session.denials.refs_shown(len(self._commands), now)
        if not session.denials.own_push_record(deny.code, self.ref_lengths(most), now):
            return None
        return self.decision(session, "deny", deny.rule, deny.code, deny.reason, most)

    def decision(
        self,
        session: Session,
        decision: Decision,
        rule: str,
        code: str | None = None,
        reason: str = "",
        most: int | None = None,
    ) -> GitDecision | PushDecision:
        """What is allowed is written whole; of what is refused, at most `most` refs."""
        if self.commands is None:
            return super().decision(session, decision, rule, code, reason)
        return PushDecision(
            sandbox=session.stored.sandbox,
            session=session.stored.id,
            decision=decision,
            tier=self.tier.value,
            repo=self.repo,
            refs=_changes(self.commands, most),
            rule=rule if code is None else rule or None,
            code=code,
            req=self.request_id,
            reason=reason or None,
        )

    # The far end

    def outgoing(self, joint: Joint) -> tuple[bytes, Framing]:
        framing, spelled = self.head.framing, self._spelled
        if isinstance(framing, Length):
            framing = Length(framing.octets - self.taken + len(spelled))
        leftover = b"" if joint.prefix is None else joint.prefix.leftover
        return spelled + leftover, framing

    @property
    def _spelled(self) -> bytes:
        return b"" if self.commands is None else self.commands.serialise()

    def answers(self, policy: Policy) -> AnswerFilter:
        return AnswerFilter(_REPORT_MAX, report=True)

    def request_max(self, policy: Policy) -> int:
        return policy.limits.push_max + len(self._spelled)

    def last_words(self, answers: AnswerFilter, policy: Policy, why: Why) -> bytes | None:
        """Once the commands have gone up, nobody knows what became of them."""
        if answers.spoken:
            return None
        code = self.code_of(why)
        reason = _reason(code, self.doubt(code, why.cause is Cause.STOPPED))
        return refuse_push(self.commands or PushCommands(), self.lines(code, policy), reason)

    def doubt(self, code: str, stopped: bool = False) -> str:
        return _UNSURE if stopped or code in _DOUBTFUL else ""

    def leaves_clean(self, outcome: Outcome | Ended) -> bool:
        """Nobody follows a push."""
        return False


def _refused(pushed: PushDenied, reasons: str) -> Deny:
    return Deny(pushed.code, reasons, pushed.rule, refs=pushed.reasons, slows_down=True)


def _reason(code: str, more: str) -> str:
    return f"{CODES[code].text} ({code}){more}"


def _changes(commands: PushCommands, most: int | None) -> tuple[RefChange, ...]:
    shown = commands.commands[:most]
    changes = [RefChange(one.ref.text, one.old.hex, one.new.hex) for one in shown]
    rest = len(commands.commands) - len(shown)
    return (*changes, RefChange(f"and {rest} more", "", "")) if rest else tuple(changes)
