"""hostd's own requests to the broker: small, one at a time on a connection, both keys pinned."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, cast

from attrs import frozen
from nacl.signing import SigningKey
from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.python.failure import Failure

from gitmoat.fault import fault_of
from gitmoat.identity.tls_options import PinnedClient, peer_key
from gitmoat.messages.host import Message
from gitmoat.net.causes import Cause
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.whole_answer import NoAnswer, WholeAnswer
from gitmoat.net.timing import Timeout, Timeouts
from gitmoat.net.transport.dialling import dial
from gitmoat.net.transport.tls import Tls
from gitmoat.shape import write
from gitmoat.wire.http.heads import Length, NoBody, format_request
from hostd.broker_link.host_keys import Keys
from hostd.failures import Failed

_ANSWER_LIMIT = 1024 * 1024
_CONNECT_TIMEOUT = 5.0
# `rm` and a hostd that starts wait for an answer: a broker that hangs must not hang them.
_TIMEOUT = Timeouts(head=5.0, idle=10.0)
# A sandbox's start makes three requests within a second; a handshake costs more than a request.
_KEPT_SECONDS = 2.0
_ALERT_SECONDS = 2.0
_LOST = (Cause.LOST, Cause.LOST_BEFORE_ANSWER)


def _unreachable(why: str) -> Failed:
    return Failed("B101", "the broker cannot be reached", why=why, exit_code=5)


def _has_said(reason: Failure, words: str) -> bool:
    """OpenSSL's words, of a connection that it ended; pyOpenSSL passes no numbers on."""
    return reason.check(SSL.Error) is not None and words in reason.getErrorMessage()


def _not_shaken(reason: Failure) -> Failed:
    if _has_said(reason, "certificate verify failed"):
        return Failed("B102", "the broker's key is not the pinned one", exit_code=5)
    return _unreachable(f"no TLS connection: {reason.getErrorMessage()}")


@frozen(eq=False)
class _Link:
    """A connection, and the keys of both sides that it was made with. `ended` says whether a TLS
    alert was the end."""

    connection: ClientConnection
    ended: Deferred[bool]
    host: SigningKey
    pins: tuple[str, ...]

    def still(self, keys: Keys) -> bool:
        return self.connection.idle and (self.host, self.pins) == (keys.host, keys.pins)


class BrokerClient:
    """Uses the host's present key; `trying` makes a client that uses another one."""

    def __init__(self, reactor: Any, address: tuple[str, int], keys: Keys) -> None:
        self._reactor = reactor
        self._address = address
        self._keys = keys
        self._kept: _Link | None = None
        self._timeout = Timeout(reactor, self._drop)

    def trying(self, key: SigningKey) -> BrokerClient:
        return BrokerClient(self._reactor, self._address, Keys(key, self._keys.pins))

    async def get(self, path: str) -> dict[str, Any]:
        return await self._ask("GET", path, b"")

    async def post(self, path: str, body: bytes) -> dict[str, Any]:
        return await self._ask("POST", path, body)

    async def tell(self, path: str, message: Message) -> dict[str, Any]:
        return await self._ask("POST", path, json.dumps(write(message)).encode())

    async def healthy(self) -> bool:
        return await self.problem() is None

    async def problem(self) -> Failed | None:
        """Makes a new connection, which shows the broker's present key."""
        self._drop()
        try:
            await self.get("/host/health")
        except Failed as problem:
            return problem
        return None

    async def _ask(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        kept = self._take()
        try:
            if kept is not None:
                try:
                    return await self._exchange(kept, method, path, body)
                except NoAnswer as problem:
                    # A broker that restarts closes the connection; it did not take the request.
                    if problem.why.cause is not Cause.NOT_TAKEN:
                        raise
            return await self._exchange(await self._connect(), method, path, body)
        except NoAnswer as problem:
            if problem.why.cause in _LOST and await self._is_stranger():
                raise Failed("B107", "the broker does not know this host", exit_code=5) from None
            raise _unreachable(str(problem)) from None

    async def _is_stranger(self) -> bool:
        """Whether the broker refuses our key, which it says after our side of the handshake (RFC
        8446, 4.4.2.4). With a request unread its end would be a reset, and the alert lost: this
        connection sends none."""
        try:
            link = await self._connect()
        except Failed:
            return False
        timeout = self._reactor.callLater(_ALERT_SECONDS, link.connection.close)
        refused = await link.ended
        if timeout.active():
            timeout.cancel()
        return refused

    async def _exchange(self, link: _Link, method: str, path: str, body: bytes) -> dict[str, Any]:
        answer = WholeAnswer(_ANSWER_LIMIT)
        headers = [(b"Host", b"gitmoat")]
        if method == "POST":
            headers.append((b"Content-Length", str(len(body)).encode()))
        head = format_request(method.encode(), path.encode(), headers)
        outgoing = link.connection.send(head, Length(len(body)) if body else NoBody(), answer)
        if body:
            outgoing.write(body)
        outgoing.finish()
        try:
            got, data = await answer.done
            return _understood(got.status, data)
        finally:
            self._keep(link)

    def _keep(self, link: _Link) -> None:
        if self._kept is not None or not link.still(self._keys):
            link.connection.close()
            return
        self._kept = link
        self._timeout.set(_KEPT_SECONDS)

    def _take(self) -> _Link | None:
        """The kept connection, if it is open and was made with the present keys."""
        kept = self._kept
        if kept is None or not kept.still(self._keys):
            self._drop()
            return None
        self._kept = None
        self._timeout.clear()
        return kept

    def _drop(self) -> None:
        self._timeout.clear()
        if self._kept is not None:
            self._kept.connection.close()
            self._kept = None

    async def _connect(self) -> _Link:
        host, pins = self._keys.host, self._keys.pins
        ready: Deferred[ClientConnection] = Deferred()
        ended: Deferred[bool] = Deferred()

        def lost(connection: ClientConnection, reason: Failure) -> None:
            ended.callback(_has_said(reason, " alert "))
            if not ready.called:
                ready.errback(_not_shaken(reason))

        protocol = ClientConnection(self._reactor, _TIMEOUT, on_ready=ready.callback, on_lost=lost)
        creator = PinnedClient(host.encode(), lambda: self._keys.pinned)
        try:
            sock = await dial(self._reactor, *self._address, _CONNECT_TIMEOUT)
        except (ConnectError, DNSLookupError) as problem:
            place = ":".join(map(str, self._address))
            why = f"nothing answers at {place}: {problem}".rstrip(".")
            raise _unreachable(why) from None
        Tls(self._reactor, sock, protocol, creator.connection()).start()
        connection = await ready
        self._keys.seen = b64encode(peer_key(cast(Any, connection.transport))).decode("ascii")
        return _Link(connection, ended, host, pins)


def _understood(status: int, body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body) if body else {}
    except ValueError:
        raise _unreachable("its answer is not JSON") from None
    if status in (200, 204) and isinstance(answer, dict):
        return answer
    told = fault_of(answer)
    if told is not None:
        raise Failed(told.code, told.what, told.why, told.fix)
    raise _unreachable(f"it answered {status}")
