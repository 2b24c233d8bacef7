"""A credential from a git credential helper that the host's owner already has."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.credentials.helper_link import HelperLink
from broker.credentials.providers.cache import Cache, Fresh
from broker.credentials.providers.credential import Credential, CredentialRequest, unavailable
from broker.credentials.providers.helper_answer import ANSWER_LIMIT, question, read_answer

_KEEP = 300.0
_TIMEOUT = 10.0
_EARLY = 60.0
# A sandbox that asks without end does not have a helper that fails run, and recorded, each time.
FAILURE_SECONDS = 5.0


@define(eq=False)
class HelperCredentials:
    """`get` only: what the owner keeps is never stored to, and never erased."""

    _reactor: Any
    _link: HelperLink
    _name: str
    _wall: Callable[[], float]
    _cache: Cache

    def credential(self, request: CredentialRequest) -> Deferred[Credential]:
        host = request.upstream.authority
        return self._cache.get(host, lambda: Deferred.fromCoroutine(self._ask(host)))

    def refused(self, request: CredentialRequest, credential: Credential) -> bool:
        """The owner may have logged in again since."""
        return self._cache.drop(request.upstream.authority, credential)

    async def _ask(self, host: str) -> Fresh:
        begun = self._link.run(self._name)
        if begun is None:
            why = f"{self._name}: hostd is not connected to this broker"
            raise unavailable(why, "a helper needs hostd on the broker's machine: `hostctl up`")
        ours, number = begun
        try:
            raw = await self._exchange(ours, question(host))
            answer = read_answer(raw, host)
            if isinstance(answer, str):
                why = f"the helper {await self._link.reason(number) or answer}"
                raise unavailable(f"{self._name}: {why}", "run it by hand as its user and look")
        except TimedOut:
            why = f"{self._name}: the helper does not answer within {_TIMEOUT:.0f} s"
            raise unavailable(why, "run it by hand as its user and look") from None
        finally:
            self._link.forget(number)
        return Fresh(answer, self._lifetime(answer))

    def _lifetime(self, credential: Credential) -> float:
        if credential.expires is None:
            return _KEEP
        return max(0.0, min(_KEEP, credential.expires - self._wall() - _EARLY))

    def _exchange(self, ours: socket.socket, asked: bytes) -> Deferred[bytes]:
        done: Deferred[bytes] = Deferred(lambda _: talk.hang_up())
        talk = _Talk(asked, done)
        factory = Factory.forProtocol(lambda: talk)
        factory.noisy = False
        with ours:
            self._reactor.adoptStreamConnection(ours.fileno(), socket.AF_UNIX, factory)
        return done.addTimeout(_TIMEOUT, self._reactor)


@implementer(IHalfCloseableProtocol)
class _Talk(Protocol):
    """Says its question, ends its side, keeps what comes."""

    def __init__(self, asked: bytes, done: Deferred[bytes]) -> None:
        self._asked = asked
        self._done = done
        self._got = b""

    def connectionMade(self) -> None:
        self._transport.write(self._asked)
        self._transport.loseWriteConnection()

    @property
    def _transport(self) -> Any:
        return self.transport

    def dataReceived(self, data: bytes) -> None:
        self._got += data
        if len(self._got) > ANSWER_LIMIT:
            self.hang_up()

    def hang_up(self) -> None:
        self._transport.abortConnection()

    def readConnectionLost(self) -> None:
        self._transport.loseConnection()

    def writeConnectionLost(self) -> None:
        """As we meant it to be; a helper that reads no further is no failure."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self._done.called:
            self._done.callback(self._got)
