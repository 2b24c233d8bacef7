"""One git port: accepts, decides through `forwarding`, relays to the broker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from math import ceil
from typing import assert_never, cast

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from gitmoat.messages.report import Event, Report
from gitwire.http import Headers, RequestHead, ResponseHead
from gitwire.smarthttp import Push
from limits.brake import DenialBrake
from netpolicy.policy import Limits, Tier
from sidecar import forwarding
from sidecar.broker_link import shown
from sidecar.budgets import RequestRate
from sidecar.connection_pool import BREATH, BrokerUnreachable, ConnectionPool, Share
from sidecar.forwarding import (
    CLOSING,
    Accepts,
    Challenge,
    Forward,
    Refuse,
    broker_head,
    decide,
)
from sidecar.kind import Scope
from sidecar.loop import Clock, Loop
from sidecar.ports import Serve
from sidecar.refusals import Reply, challenge, refusal
from streams import relay
from streams.causes import Cause
from streams.client import ClientConnection
from streams.descriptor import Descriptor
from streams.incoming import Incoming
from streams.memory import give_back_after
from streams.relay import Broken, Outcome, Relay, Relayed, Unanswered
from streams.server import ServerConnection
from streams.timing import Timeouts
from streams.wire import Transport

UNREACHABLE = Refuse("B101", 502)
# As much of a body is kept until there is an answer: all of most fetches.
KEPT = 64 * 1024
_TRIES = 4


@frozen
class Port:
    """What makes :418 and :419 differ. `uid` is the only one nftables lets through to it."""

    tier: Tier
    uid: int


@frozen
class Brakes:
    """What slows a port down: its rate of requests, and its number of refusals."""

    clock: Clock
    rate: RequestRate
    denials: DenialBrake

    def wait(self, head: RequestHead) -> float:
        return self.rate.wait(self.clock.seconds(), head.method == b"GET")

    def limit(self, limits: Limits) -> None:
        """Those of another policy."""
        self.rate.limit(limits)
        self.denials.free = limits.free_refusals

    def verifying(self, seconds: int) -> None:
        self.denials.lift(self.clock.seconds(), seconds)

    def refused(self) -> float:
        """One more; the seconds after which it is answered."""
        return self.denials.refused(self.clock.seconds())


@frozen
class Office:
    """What every exchange of a port needs."""

    port: Port
    scope: Scope
    accepts: Accepts
    pool: ConnectionPool[ClientConnection]
    report: Callable[[Report], None]
    new_id: Callable[[], str]
    timeouts: Timeouts
    brakes: Brakes

    def refused(self, code: str, repository: str | None, request_id: str | None) -> None:
        uid = self.port.uid
        self.report(
            Report(event=Event.GIT_REFUSED, uid=uid, repo=repository, code=code, req=request_id)
        )


@define(eq=False)
class Exchange:
    """One request, from its head to its end."""

    _office: Office
    _incoming: Incoming
    _on_end: Callable[[], None]
    _id: str = field(init=False)
    _waiting: Deferred[ClientConnection] | None = field(default=None, init=False)
    _tries: int = field(default=1, init=False)
    _sent: bytes = field(default=b"", init=False)  # of the body, on a link that came to nothing

    def start(self) -> None:
        office = self._office
        self._id = office.new_id()
        decision = decide(office.scope, office.port.tier, self._incoming.head, office.accepts)
        match decision:
            case Forward() if wait := office.brakes.wait(self._incoming.head):
                office.refused("G303", None, self._id)
                self._refuse_later(Refuse("G303", 429), ceil(wait))
            case Forward():
                self._incoming.on_lost(self._client_lost)
                self._forward(decision)
            case Challenge():
                if decision.presented:
                    office.refused("H104", decision.repository, self._id)
                self._reply(challenge(self._id))
            case Refuse():
                office.refused(decision.code, decision.repository, self._id)
                self._refuse_later(decision)
            case _:
                assert_never(decision)

    def _refuse_later(self, refuse: Refuse, retry: int = 0) -> None:
        """Who goes on asking for what is refused waits longer for each answer."""
        delay = self._office.brakes.refused()
        if delay:
            clock = self._office.brakes.clock
            clock.callLater(delay, self._refuse, refuse, retry, True)
        else:
            self._refuse(refuse, retry)

    def _refuse(self, refuse: Refuse, retry: int = 0, braked: bool = False) -> None:
        policy, tier = self._office.scope.policy, self._office.port.tier
        self._reply(refusal(refuse, self._id, policy, tier, retry, braked), refuse.close)

    def _reply(self, reply: Reply, close: bool = False) -> None:
        self._incoming.release(self)
        self._incoming.reply(reply.status, reply.headers, reply.body, close)
        self._on_end()

    def _client_lost(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _forward(self, forward: Forward) -> None:
        pool, tier = self._office.pool, self._office.port.tier
        share = Share.TRUSTED if tier is Tier.HELPER else Share.UNTRUSTED
        link = pool.take(share)
        if link is not None:
            self._connected(link, forward)
            return
        self._waiting = pool.acquire(share)
        self._waiting.addCallbacks(self._connected, self._unreachable, callbackArgs=(forward,))

    def _unreachable(self, failure: Failure) -> None:
        self._waiting = None
        if isinstance(failure.value, CancelledError):
            self._on_end()
        elif isinstance(failure.value, BrokerUnreachable):
            self._refuse(UNREACHABLE)
        else:
            failure.raiseException()

    def _connected(self, link: ClientConnection, forward: Forward) -> None:
        self._waiting = None
        seen: list[ResponseHead] = []

        def answer(head: ResponseHead) -> tuple[int, Headers] | relay.Refuse:
            seen.append(head)
            self._incoming.closes = self._incoming.closes or head.status in CLOSING
            return _answer(forward, self._office.port.tier, head)

        def ended(outcome: Outcome) -> None:
            self._office.pool.release(link, shown(outcome, bool(seen)))
            give_back_after(self._office.brakes.clock, relayed.bytes_up + relayed.bytes_down)
            self._ended(outcome, forward)

        framing = self._incoming.head.framing
        raw = broker_head(forward, self._office.port.tier, self._id, framing)
        sent, self._sent = self._sent, b""
        relayed = Relay(self._incoming, link, raw, framing, answer, sent, keep=KEPT)
        relayed.start().addCallback(ended)
        self._incoming.release(self)

    def _ended(self, outcome: Outcome, forward: Forward) -> None:
        match outcome:
            case Relayed() | Broken():
                self._on_end()
            case Unanswered(refused=relay.Refuse()):
                self._refuse(Refuse("U104", 502))
            case Unanswered(why=why, body=bytes(sent)) if self._may_retry(why.cause, forward):
                self._tries += 1
                self._sent = sent
                self._incoming.hold(self)
                self._office.brakes.clock.callLater(BREATH, self._forward_again, forward)
            case Unanswered():
                self._refuse(UNREACHABLE)
            case _:
                assert_never(outcome)

    def _forward_again(self, forward: Forward) -> None:
        if self._incoming.alive:
            self._forward(forward)
        else:
            self._on_end()

    def _may_retry(self, cause: Cause, forward: Forward) -> bool:
        """A broker that restarts leaves dead links behind, and closes others in order.

        What it has not taken it cannot have done. When that is not known a push is not sent again;
        a fetch is, once. A broker that said nothing for so long would not be quicker now.
        """
        if cause is Cause.NOT_TAKEN:
            return self._tries < _TRIES
        if cause is Cause.NO_ANSWER or isinstance(forward.request, Push):
            return False
        return self._tries == 1


def _answer(forward: Forward, tier: Tier, head: ResponseHead) -> tuple[int, Headers] | relay.Refuse:
    answer = forwarding.answer(forward.request, tier, head)
    if isinstance(answer, Refuse):
        return relay.Refuse(answer.code)
    return answer.status, answer.headers


@define(eq=False)
class _Client:
    """One connection from the sandbox, and the exchange on it."""

    connection: ServerConnection = field(init=False)
    incoming: Incoming | None = field(default=None, init=False)

    def close(self) -> None:
        if self.incoming is not None:
            self.incoming.closes = True
        else:
            cast(Transport, self.connection.transport).loseConnection()

    def abort(self) -> None:
        self.connection.abort()


def git_port(loop: Loop, office: Office) -> Serve:
    def serve(sock: socket.socket, lost: Callable[[], None]) -> _Client:
        client = _Client()
        client.connection = ServerConnection(
            loop,
            lambda incoming: _requested(office, client, incoming),
            office.timeouts,
            on_malformed=lambda _: office.refused("G104", None, None),
            on_lost=lost,
        )
        Descriptor(loop, sock, client.connection).start()
        return client

    return serve


def _requested(office: Office, client: _Client, incoming: Incoming) -> None:
    client.incoming = incoming

    def ended() -> None:
        # The next, pipelined request may have begun inside the end of this one.
        if client.incoming is incoming:
            client.incoming = None

    Exchange(office, incoming, ended).start()
