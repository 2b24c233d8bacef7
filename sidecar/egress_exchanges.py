"""One request of the sandbox for another host: a CONNECT, or one plain HTTP request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from gitwire.clienthello import hello_for
from gitwire.errors import Malformed
from gitwire.hostname import Destination
from gitwire.http import Headers, ResponseHead
from gitwire.proxying import PlainRequest, TunnelRequest, format_plain, passed_on
from netpolicy.decision import Deny
from sidecar.broker_link import shown
from sidecar.connection_pool import BrokerUnreachable, Proof, Share
from sidecar.egress_office import (
    ESTABLISHED,
    OVER,
    UNREACHABLE,
    EgressOffice,
    LiveTunnel,
    OpenTunnel,
    code_in,
    reply_refusal,
)
from streams import relay
from streams.causes import Cause
from streams.client import ClientConnection
from streams.incoming import Incoming
from streams.memory import give_back_after
from streams.raw import Raw
from streams.relay import Broken, Outcome, Relay, Relayed, Unanswered
from streams.tunnel import Ended, Opening, Tunnel

_NOT_A_NAME: Final = 403  # of gitwire.hostname: understood, and not a host that could be reached

Classify = Callable[[Incoming], TunnelRequest | PlainRequest]


@define(eq=False)
class Joined:
    """A client's end and the broker's, joined while the policy allows it."""

    _office: EgressOffice
    _to: Destination
    _request_id: str
    _live: LiveTunnel | None = field(default=None, init=False)

    def start(
        self, client: Raw, upstream: Raw, opening: Opening | None, prelude: bytes = b""
    ) -> None:
        office = self._office
        tunnel = Tunnel(office.loop, client, upstream, office.idle, opening)
        self._live = LiveTunnel(self._to, tunnel.cut)
        office.tunnels.add(self._live)
        tunnel.start(prelude).addCallback(self._ended)

    def _ended(self, ended: Ended) -> None:
        office = self._office
        if self._live is not None:
            office.tunnels.discard(self._live)
        give_back_after(office.loop, ended.bytes_up + ended.bytes_down)
        if ended.why is not None and ended.why.cause is Cause.NOT_OPENED:
            office.refused("tunnel", "E105", self._to.text, self._request_id)


@define(eq=False)
class EgressExchange:
    """From the head of a request to its end, or to the tunnel it becomes."""

    _office: EgressOffice
    _incoming: Incoming
    _classify: Classify
    _id: str = field(init=False)
    _opening: OpenTunnel | None = field(default=None, init=False)
    _waiting: Deferred[ClientConnection] | None = field(default=None, init=False)

    def start(self) -> None:
        self._id = self._office.new_id()
        try:
            request = self._classify(self._incoming)
        except Malformed as malformed:
            named = malformed.status == _NOT_A_NAME
            self._refuse("tunnel", "E103" if named else "E111", "", close=not named)
            return
        self._incoming.on_lost(self._client_lost)
        match request:
            case TunnelRequest(to):
                self._tunnel(to)
            case PlainRequest():
                self._plain(request)
            case _:
                assert_never(request)

    def _refuse(self, op: str, code: str, subject: str, close: bool = False) -> None:
        """Whatever is refused here is reported; what the broker refuses it has recorded itself."""
        self._office.refused(op, code, subject or None, self._id)
        self._show(code, subject, close)

    def _show(self, code: str, subject: str, close: bool = False) -> None:
        reply_refusal(self._incoming, self._office.refusal(code, subject, self._id), close)

    def _client_lost(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    # A tunnel

    def _tunnel(self, to: Destination) -> None:
        verdict = self._office.decide_tunnel(to)
        if isinstance(verdict, Deny):
            self._refuse("tunnel", verdict.code, to.text)
            return

        def opened(upstream: Raw) -> None:
            client = self._incoming.tunnel(ESTABLISHED)
            Joined(self._office, to, self._id).start(client, upstream, hello_for(to.host))

        def refused(code: str) -> None:
            self._show(code, to.text)

        self._opening = OpenTunnel(self._office, to, self._id, opened, refused)
        self._opening.start()

    # A plain request

    def _plain(self, request: PlainRequest) -> None:
        verdict = self._office.decide_plain(request.to, request.method)
        if isinstance(verdict, Deny):
            self._refuse("http", verdict.code, request.to.text)
        elif request.asks_for_dns:
            self._refuse("http", "E112", request.to.text)
        elif self._office.over_rate():
            self._refuse("http", OVER, request.to.text)
        else:
            self._waiting = self._office.pool.acquire(Share.EGRESS)
            self._waiting.addCallbacks(
                self._connected, self._unreachable, callbackArgs=(request,), errbackArgs=(request,)
            )

    def _unreachable(self, failure: Failure, request: PlainRequest) -> None:
        self._waiting = None
        if isinstance(failure.value, BrokerUnreachable):
            self._show(UNREACHABLE, request.to.text)
        elif not isinstance(failure.value, CancelledError):
            failure.raiseException()

    def _connected(self, link: ClientConnection, request: PlainRequest) -> None:
        self._waiting = None
        head, to_head = self._incoming.head, request.method == b"HEAD"
        seen: list[ResponseHead] = []

        def answer(head: ResponseHead) -> tuple[int, Headers] | relay.Refuse:
            seen.append(head)
            code = code_in(head)
            return relay.Refuse(code) if code else (head.status, passed_on(head, to_head))

        def ended(outcome: Outcome) -> None:
            self._office.pool.release(link, shown(outcome, bool(seen)))
            give_back_after(self._office.loop, joined.bytes_up + joined.bytes_down)
            self._ended(outcome, request)

        extra = ((b"Gitmoat-Request-Id", self._id.encode("ascii")),)
        try:
            raw = format_plain(request, head, extra, absolute=True)
        except Malformed:
            self._office.pool.release(link, Proof.NONE)
            self._refuse("http", "E111", request.to.text, close=True)
            return
        joined = Relay(self._incoming, link, raw, head.framing, answer, to_head=to_head)
        joined.start().addCallback(ended)

    def _ended(self, outcome: Outcome, request: PlainRequest) -> None:
        match outcome:
            case Relayed() | Broken():
                pass
            case Unanswered(refused=relay.Refuse(code=str(code))):
                self._show(code, request.to.text)
            case Unanswered():
                self._show(UNREACHABLE, request.to.text)
            case _:
                assert_never(outcome)
