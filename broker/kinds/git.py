"""Git's requests that carry no push: the advertisement of refs, and the fetch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import ClassVar, assert_never, cast

from attrs import evolve, frozen

from broker.config.settings import BrokerConfig
from broker.credentials.injection import upstream_head
from broker.credentials.providers.credential import CredentialRequest
from broker.exchange.decisions import RequestContext, decide_request, is_write, read_sidecar_headers
from broker.exchange.kind import DROP, Allow, Deny, End, Joint, Kind, Verdict
from broker.exchange.least_rate import Paced
from broker.exchange.refusals import Reply, lfs_reply, refuse, text_reply
from broker.kinds.git_answers import AnswerFilter
from broker.kinds.git_responses import judge, moved_to
from broker.kinds.git_stages import GitAnswer, GzippedRequest
from broker.sessions.admission import Admission
from broker.sessions.running import Permit
from broker.sessions.session_limits import Busy
from broker.sessions.sessions import Session
from broker.upstream.limiters import UpstreamLimiter, UpstreamLimiters
from broker.upstream.route import Route
from broker.upstream.routes import Routes
from gitmoat.audit.events import Decision, GitDecision, GitOutcome, PushDecision
from gitmoat.audit.journal import JournalUnavailable
from gitmoat.limits.quota import Pace
from gitmoat.net.causes import Cause, Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.relay import Broken, Outcome, Refuse, Relay, Relayed, Side, Unanswered
from gitmoat.net.stages import Quota, Size, Stages
from gitmoat.net.tunnel_relay import Ended
from gitmoat.wire.git.smarthttp import (
    Advertise,
    Fetch,
    GitRequest,
    LfsRequest,
    Push,
    Service,
    Unserved,
    classify,
    response_type,
)
from gitmoat.wire.http.framing import Framing, Headers, Length
from gitmoat.wire.http.gzipped import GzipReader
from gitmoat.wire.http.heads import RequestHead, ResponseHead
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny as Denied
from netpolicy.git_rules.refusal import refusal_lines
from netpolicy.policy import Policy, Tier

GIT_PREFIX = b"/git/"
REQUEST_MAX = 64 << 20
# What a compressed request may unpack to: object ids are half of random, so git's own shrink to
# half. Zeros shrink a thousandfold, and all others would wait while 64 KiB of them are unpacked.
_UNPACKED = 1 << 20
UNPACKED_TIMES = 16
_OURS = {
    Cause.QUOTA: "G305",
    Cause.SLOW: "G306",
    Cause.NO_REQUEST: "G306",
    Cause.TOO_FINE: "U104",
}
_MISSING = "the git server says not found, or our credential cannot see it; the policy allows it"
# The upstream cannot be reached (U101). After any other cause it has answered, unusably (U104).
_LOST = frozenset(
    {Cause.NOT_TAKEN, Cause.LOST_BEFORE_ANSWER, Cause.LOST, Cause.CUT, Cause.NO_ANSWER}
)
_CLIENT_LATE = "; the client stopped sending"
_REFS = {each: f"refs {each.value.removeprefix('git-')}" for each in Service}


class TooMuchToRecord(JournalUnavailable):
    """A session over what it may have written; it can come again later."""

    code = "G303"

    def __init__(self, wait: float) -> None:
        super().__init__("this session has had written all it may for now")
        self.retry = ceil(wait)


def _classified(head: RequestHead) -> GitRequest | LfsRequest | Unserved | None:
    """None for a path that names no repository: it is answered like an unknown one."""
    try:
        return classify(head, GIT_PREFIX)
    except Malformed as malformed:
        if malformed.status != 404:
            raise
        return None


@frozen(eq=False, kw_only=True)
class Git(Kind):
    name: ClassVar[str] = "git"
    counts: ClassVar[bool] = True
    limits_first: ClassVar[bool] = True
    queued: ClassVar[bool] = True
    synced_beside: ClassVar[bool] = True
    too_large: ClassVar[str] = "G302"  # of a request

    request: GitRequest
    tier: Tier

    @classmethod
    def classify(cls, head: RequestHead, routes: Routes, policy: Policy) -> Git | Reply | None:
        if not head.target.startswith(GIT_PREFIX):
            return None
        envelope = read_sidecar_headers(head)
        request_id, tier = envelope.request_id, envelope.tier

        def lines(code: str) -> list[str]:
            return refusal_lines(code, request_id, policy, tier)

        request = _classified(head)
        match request:
            case Advertise() | Fetch() | Push():
                if not cls.serves(request):
                    return None
                server = routes.by_upstream.get(request.place.text)
                return cls(
                    request_id=request_id, head=head, server=server, request=request, tier=tier
                )
            case LfsRequest():
                return lfs_reply(lines("G102"), request_id)
            case Unserved():
                return text_reply("G103", lines("G103"), request_id)
            case None:
                return text_reply("G101", lines("G101"), request_id)
            case _:
                assert_never(request)

    @classmethod
    def serves(cls, request: GitRequest) -> bool:
        return not isinstance(request, Push)

    @property
    def repeatable(self) -> bool:
        """A server may have closed an idle connection; only a GET can be sent again."""
        return isinstance(self.request, Advertise)

    # Deciding

    def asked(self, policy: Policy) -> RequestContext:
        upstream = None if self.server is None else self.server.upstream
        return RequestContext(self.request, self.tier, policy, upstream)

    def decide(self, policy: Policy, routes: Routes) -> Verdict:
        verdict = decide_request(self.asked(policy))
        if isinstance(verdict, Denied):
            return Deny(verdict.code, verdict.reason, verdict.rule, slows_down=True)
        return Allow(verdict.rule)

    # Limits

    def seconds(self, config: BrokerConfig) -> float:
        return (config if self.server is None else self.server.config).timeouts.operation

    def enter(self, session: Session, admission: Admission, now: float, rule: str) -> Deny | float:
        """Its own budget first: a session that is over it must not use up that of the others."""
        entered = session.budget.enter(self.tier, now)
        if isinstance(entered, Busy):
            return over_a_limit("G303", entered.seconds)
        wait = admission.wait(session.owner, now)
        if wait:
            session.budget.leave(self.tier)
            return over_a_limit("B106", wait)
        return entered

    def leave(self, session: Session) -> None:
        session.budget.leave(self.tier)

    def limiter(self, every: UpstreamLimiters, session: Session) -> UpstreamLimiter:
        assert self.server is not None  # noqa: S101 - without a server nothing is allowed
        return every.of(self.server, session, self.tier.value, self.request.repository.text)

    # What is told and recorded

    def lines(self, code: str, policy: Policy, braked: bool = False, hint: str = "") -> list[str]:
        return refusal_lines(code, self.request_id, policy, self.tier, braked, hint)

    def refuse(self, deny: Deny, policy: Policy, braked: bool) -> Reply:
        lines = self.lines(deny.code, policy, braked, deny.hint)
        return refuse(self.request, deny.code, lines, self.request_id, deny.retry)

    @property
    def op(self) -> str:
        request = self.request
        return _REFS[request.service] if isinstance(request, Advertise) else "fetch"

    @property
    def labels(self) -> tuple[str, str]:
        return self.op, self.tier.value

    @property
    def repo(self) -> str:
        return f"{self.request.place.text}:{self.request.repository.text}"

    def ref_lengths(self, most: int | None = None) -> list[int]:
        """Of the names that its record has, in octets."""
        return []

    def record_allowed(
        self, session: Session, allow: Allow, now: float
    ) -> GitDecision | PushDecision:
        wait = session.denials.wait(self.ref_lengths(), now)
        if wait:
            raise TooMuchToRecord(wait)
        return self.decision(session, "allow", allow.rule)

    def record_denied(
        self, session: Session, deny: Deny, now: float
    ) -> GitDecision | PushDecision | None:
        if not session.denials.own_record(deny.code, now):
            return None
        return self.decision(session, "deny", deny.rule, deny.code, deny.reason)

    def decision(
        self,
        session: Session,
        decision: Decision,
        rule: str,
        code: str | None = None,
        reason: str = "",
        most: int | None = None,
    ) -> GitDecision | PushDecision:
        return GitDecision(
            sandbox=session.stored.sandbox,
            session=session.stored.id,
            decision=decision,
            op=self.op,
            tier=self.tier.value,
            repo=self.repo,
            rule=rule if code is None else rule or None,
            code=code,
            req=self.request_id,
            reason=reason or None,
        )

    def record_end(self, session: Session, end: End, seconds: float) -> GitOutcome:
        return GitOutcome(
            sandbox=session.stored.sandbox,
            session=session.stored.id,
            op=self.op,
            repo=self.repo,
            bytes_up=end.up,
            bytes_down=end.down,
            ms=int(seconds * 1000),
            code=end.code,
            req=self.request_id,
            reason=end.reason or None,
        )

    # The far end

    def credential_request(self, permit: Permit, policy: Policy) -> CredentialRequest:
        assert self.server is not None  # noqa: S101 - without a server nothing is allowed
        write, workflows = is_write(self.request), self.workflows(policy)
        name = self.request.repository.text
        return CredentialRequest(permit, self.server.config, name, write, workflows)

    def workflows(self, policy: Policy) -> bool:
        return False

    def route(self, routes: Routes, policy: Policy, allow: Allow) -> Route:
        assert self.server is not None  # noqa: S101 - without a server nothing is allowed
        return self.server.route

    def join(self, joint: Joint) -> Paced:
        assert self.server is not None and joint.credential is not None  # noqa: S101 - both were had
        prelude, framing = self.outgoing(joint)
        config = self.server.config
        answers = self.answers(joint.policy)
        budget = joint.session.bytes
        relay = Relay(
            joint.incoming,
            cast(ClientConnection, joint.far),
            upstream_head(
                config.spelled(self.request), config.authority, joint.credential, framing
            ),
            framing,
            partial(self._answer, joint.answer, answers.limit, joint.policy),
            prelude,
            up=(
                *self._packed(),
                Quota(budget, Why(Cause.QUOTA)),
                Size(self.request_max(joint.policy), Cause.REQUEST_TOO_LARGE),
            ),
            down=(GitAnswer(answers, budget, partial(self.last_words, answers, joint.policy)),),
            discard_limit=DROP,
        )
        return Paced(relay, joint.clock, joint.now, Pace(joint.minimum_rate))

    def outgoing(self, joint: Joint) -> tuple[bytes, Framing]:
        """What has been read of the body, and the framing of what goes up in all."""
        return b"", self.head.framing

    def answers(self, policy: Policy) -> AnswerFilter:
        return AnswerFilter(policy.limits.fetch_max)

    def request_max(self, policy: Policy) -> int:
        return REQUEST_MAX

    def _packed(self) -> Stages:
        if not isinstance(self.request, Fetch) or not self.request.gzip:
            return ()
        framing = self.head.framing
        octets = framing.octets if isinstance(framing, Length) else _UNPACKED
        return (GzippedRequest(GzipReader(min(REQUEST_MAX, _UNPACKED + UNPACKED_TIMES * octets))),)

    def last_words(self, answers: AnswerFilter, policy: Policy, why: Why) -> bytes | None:
        """How an answer that has begun can be ended in words, if it can."""
        return answers.farewell(self.lines(self.code_of(why), policy))

    def _answer(
        self,
        heard: Callable[[ResponseHead], None],
        limit: int,
        policy: Policy,
        head: ResponseHead,
    ) -> tuple[int, Headers] | Refuse:
        """The head the sidecar sees: of the upstream's own, only its meaning is left."""
        heard(head)
        code = judge(head, self.request, limit)
        if code == "U103":
            return self._redirected(head, policy)
        if code == "G101" and self.tier is Tier.HELPER:  # what it is told, the owner alone reads
            return Refuse(code, hint=_MISSING)
        if code is not None:
            return Refuse(code)
        return 200, (
            (b"Content-Type", response_type(self.request)),
            (b"Cache-Control", b"no-cache"),
            (b"Gitmoat-Request-Id", self.request_id.encode()),
        )

    def _redirected(self, head: ResponseHead, policy: Policy) -> Refuse:
        """The new name is told to a client that may ask for it, and to the audit."""
        assert self.server is not None  # noqa: S101 - it has answered
        found = moved_to(head, self.request, self.server.upstream)
        if found is None:
            return Refuse("U103")
        repository, dot_git = found
        name = repository.text + (".git" if dot_git else "")
        asked = self.asked(policy)
        there = evolve(asked, request=evolve(asked.request, repository=repository))
        denied = isinstance(decide_request(there), Denied)
        hint = "" if denied else f"use this name instead: {name}"
        return Refuse("U111", f"moved to {self.server.upstream.name}:{name}", hint)

    # The end

    def code_of(self, why: Why) -> str:
        if why.cause is Cause.STOPPED:
            return why.code or "U101"
        if why.cause in _OURS:
            return _OURS[why.cause]
        if why.cause is Cause.ANSWER_TOO_LARGE:
            return "G302"
        if why.cause is Cause.REQUEST_TOO_LARGE:
            return self.too_large
        return "U101" if why.cause in _LOST else "U104"

    def doubt(self, code: str, stopped: bool = False) -> str:
        """What more is said of a request that may have had its effect."""
        return ""

    def leaves_clean(self, outcome: Outcome | Ended) -> bool:
        """Nobody follows an answer that we had to end ourselves."""
        return not isinstance(outcome, Relayed) or outcome.ended is None

    def end(self, outcome: Outcome | Ended) -> End:
        match outcome:
            case Relayed(_, up, down, ended):
                return End(None if ended is None else self.code_of(ended), "", up, down)
            case Unanswered(why, refused, up):
                code = self.code_of(why) if refused is None else refused.code or "U104"
                late = why.cause is Cause.NO_REQUEST  # its rest may never come: it is not drained
                more = _CLIENT_LATE if late else self.doubt(code) if up else ""
                hint = "" if refused is None else refused.hint
                tell = Deny(code, more=more, hint=hint, close=late)
                lost = refused is None and code == "U101"
                return End(code, why.text, up, tell=tell, lost=lost)
            case Broken(side, why, up, down):
                return End(_code_of_cut(side, why), why.text, up, down)
            case Ended():
                raise TypeError("git has no tunnels")
            case _:
                assert_never(outcome)


def over_a_limit(code: str, wait: int) -> Deny:
    told = f"over a limit, told to wait {wait} s"
    return Deny(code, told, retry=wait, hint=f"again in {wait} s" if wait else "")


def _code_of_cut(side: Side, why: Why) -> str | None:
    match side:
        case Side.CLIENT:
            return None
        case Side.UPSTREAM:
            return "U101"
        case Side.US:
            return _OURS.get(why.cause) or why.code or "G302"
        case _:
            assert_never(side)
