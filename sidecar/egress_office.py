"""What every connection to another host needs, whichever port it came in by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from gitmoat.messages.report import Event, Report
from gitwire.formatting import format_response
from gitwire.hostname import Destination
from gitwire.http import Piece, ResponseHead
from gitwire.proxying import format_connect
from limits.buckets import TokenBucket
from netpolicy.codes import CODES
from netpolicy.decision import Deny
from netpolicy.egress import EgressAllow, decide_egress, decide_plain
from netpolicy.egresstext import Refusal, refusal
from sidecar.connection_pool import BREATH, BrokerUnreachable, ConnectionPool, Proof, Share
from sidecar.forwarding import Scope
from sidecar.loop import Loop
from streams.causes import Cause, Why
from streams.client import ClientConnection
from streams.incoming import Incoming
from streams.raw import Raw
from streams.timing import Timeouts

ESTABLISHED: Final = format_response(200, (), b"Connection established")
CODE: Final = b"gitmoat-code"
UNREACHABLE: Final = "B101"
OVER: Final = "E108"
# Longer than the broker's own patience, so that it is the broker who ends an idle tunnel.
_LONGER: Final = 30.0


@define(eq=False)
class EgressOffice:
    loop: Loop
    scope: Scope
    uid: int
    pool: ConnectionPool[ClientConnection]
    report: Callable[[Report], None]
    new_id: Callable[[], str]
    timeouts: Timeouts
    tunnels: set[LiveTunnel] = field(factory=set)
    _per_minute: int = field(default=0, init=False)
    _rate: TokenBucket | None = field(default=None, init=False)

    @property
    def idle(self) -> float:
        return self.scope.policy.limits.egress_idle + _LONGER

    def decide_tunnel(self, to: Destination) -> EgressAllow | Deny:
        return decide_egress(self.scope.policy, to, "tls", self.scope.upstreams.names)

    def decide_plain(self, to: Destination, method: bytes) -> EgressAllow | Deny:
        names = self.scope.upstreams.names
        return decide_plain(self.scope.policy, to, method.decode("ascii"), names)

    def over_rate(self) -> bool:
        """Never before the broker would say so; but it need not say it a thousand times a second,
        to a sandbox that asks as often."""
        per_minute = self.scope.policy.limits.egress_per_minute
        if self._rate is None or per_minute != self._per_minute:
            self._per_minute, self._rate = per_minute, TokenBucket.per_minute(per_minute)
        return bool(self._rate.take(self.loop.seconds()))

    def refused(
        self, op: str, code: str, to: str | None, request_id: str | None = None, count: int = 1
    ) -> None:
        event = Event.EGRESS_REFUSED
        self.report(
            Report(event=event, uid=self.uid, code=code, req=request_id, count=count, op=op, to=to)
        )

    def refusal(self, code: str, subject: str, request_id: str) -> Refusal:
        return refusal(code, subject, request_id, self.scope.policy)

    def cut_disallowed(self) -> int:
        """After a change of the policy: end what it does not allow, and say how many."""
        denied = [each for each in self.tunnels if isinstance(self.decide_tunnel(each.to), Deny)]
        for each in denied:
            each.cut(Why(Cause.STOPPED))
        return len(denied)


@frozen(eq=False)
class LiveTunnel:
    to: Destination
    cut: Callable[[Why], None]


def reply_refusal(incoming: Incoming, told: Refusal, close: bool = False) -> None:
    """Clients show the status line of a refused CONNECT, and the body of anything else."""
    headers = ((b"Content-Type", b"text/plain"), (b"Proxy-Status", told.proxy_status))
    incoming.reply(told.status, headers, told.body, close, told.phrase)


@define(eq=False)
class OpenTunnel:
    """Asks the broker for a tunnel. One of the two is called once: `opened` with its end,
    `refused` with a code."""

    _office: EgressOffice
    _to: Destination
    _request_id: str
    _opened: Callable[[Raw], None]
    _refused: Callable[[str], None]
    _waiting: Deferred[ClientConnection] | None = field(default=None, init=False)
    _link: ClientConnection | None = field(default=None, init=False)
    _retried: bool = field(default=False, init=False)
    _code: str = field(default=UNREACHABLE, init=False)

    def start(self) -> None:
        if self._office.over_rate():
            self._office.refused("tunnel", OVER, self._to.text, self._request_id)
            self._refused(OVER)
            return
        self._waiting = self._office.pool.acquire(Share.EGRESS)
        self._waiting.addCallbacks(self._connect, self._unreachable)

    def cancel(self) -> None:
        """Nobody wants it any more; neither is called then."""
        self._opened = self._refused = _nothing
        if self._waiting is not None:
            self._waiting.cancel()
        if self._link is not None:
            self._link.abort()

    def _connect(self, link: ClientConnection) -> None:
        self._waiting, self._link = None, link
        extra = ((b"Gitmoat-Request-Id", self._request_id.encode("ascii")),)
        link.connect(format_connect(self._to, extra), self, self._switched)

    def _unreachable(self, failure: Failure) -> None:
        self._waiting = None
        if isinstance(failure.value, BrokerUnreachable):
            self._refused(UNREACHABLE)
        elif not isinstance(failure.value, CancelledError):
            failure.raiseException()

    def _switched(self, raw: Raw) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._office.pool.served(link)
        if self._opened is _nothing:
            raw.abort()
        else:
            self._opened(raw)

    # The broker's answer, where it opens no tunnel

    def response(self, head: ResponseHead) -> None:
        self._code = code_in(head) or UNREACHABLE

    def body(self, *pieces: Piece) -> None:
        """The code says it all."""

    def body_done(self) -> None:
        self._release(Proof.ANSWERED)
        self._refused(self._code)

    def failed(self, why: Why) -> None:
        """Once more: a broker that restarts leaves dead links behind."""
        self._release(Proof.NONE if self._refused is _nothing else Proof.FAILED)
        if self._refused is _nothing:
            return
        if self._retried:
            self._refused(UNREACHABLE)
        else:
            self._retried = True
            self._office.loop.callLater(BREATH, self._start_again)

    def _start_again(self) -> None:
        if self._refused is not _nothing:
            self.start()

    def _release(self, proof: Proof) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._office.pool.release(link, proof)


def _nothing(_: object) -> None:
    """For who has gone."""


def code_in(head: ResponseHead) -> str | None:
    """The broker's refusal of its own; an upstream's answer has no such header."""
    value = head.header(CODE)
    code = None if value is None else value.decode("ascii", "replace")
    return code if code in CODES else None
