"""cred.sock: who asks is settled before a byte is read; the answer is a token or `quit=1`."""

from __future__ import annotations

import socket
from collections.abc import Callable

from attrs import define, field, frozen
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from credential_helper.gitcredential import (
    QUIT,
    CredentialMalformed,
    Request,
    RequestReader,
    format_answer,
)
from gitmoat.identity.peer import Attestation, AttestedPeer, NotAttested
from gitmoat.limits.buckets import TokenBucket
from gitmoat.messages.report import Event, Report
from gitmoat.net.timing import Timer, cancel
from sidecar.budgets import CREDENTIALS_PER_MINUTE
from sidecar.credential.asked import repository_asked
from sidecar.credential.tokens import USERNAME, Tokens
from sidecar.kind import Scope
from sidecar.loop import Loop
from sidecar.port.ports import Serve

REQUEST_TIMEOUT = 5.0
_PIECE = 4096


@frozen
class Issuer:
    """Turns an attested peer's request into an answer. No peer, no answer."""

    scope: Scope
    tokens: Tokens
    report: Callable[[Report], None]
    now: Callable[[], float]
    rate: TokenBucket = field(factory=lambda: TokenBucket.per_minute(CREDENTIALS_PER_MINUTE))

    def answer(self, peer: AttestedPeer, request: Request) -> bytes:
        if request.action == "store":
            return b""  # there is nothing to store
        if self.rate.take(self.now()):
            self.refused(peer, "H106")
            return QUIT
        located = repository_asked(self.scope, request)
        if located is None:
            self.refused(peer, "H105")
            return QUIT
        if request.action == "erase":  # git was refused with one: none of them counts any more
            self.tokens.erase(located.scoped)
            return b""
        self.report(Report(event=Event.CREDENTIAL_GRANTED, uid=peer.uid, repo=located.name))
        return format_answer(USERNAME, self.tokens.issue(located.scoped))

    def refused(self, peer: AttestedPeer, code: str) -> None:
        self.report(Report(event=Event.CREDENTIAL_REFUSED, uid=peer.uid, code=code))


@implementer(IReadDescriptor)
@define(eq=False)
class Conversation:
    """One request of one attested peer, within a time.

    Reads with plain recv(2): descriptors sent along are dropped by the kernel, never received.
    """

    _loop: Loop
    _sock: socket.socket
    _peer: AttestedPeer
    _attestation: Attestation
    _issuer: Issuer
    _on_end: Callable[[], None]
    _reader: RequestReader = field(factory=RequestReader, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)

    def start(self) -> None:
        self._sock.setblocking(False)
        self._timer = self._loop.callLater(REQUEST_TIMEOUT, self._too_late)
        self._loop.addReader(self)

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        cancel(self._timer)
        self._loop.removeReader(self)
        self._sock.close()
        self._on_end()

    def fileno(self) -> int:
        return self._sock.fileno()

    def logPrefix(self) -> str:
        return "credential"

    def connectionLost(self, reason: Failure) -> None:
        self.close()

    def doRead(self) -> None:
        try:
            data = self._sock.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        try:
            self._take(data)
        except CredentialMalformed:
            self._issuer.refused(self._peer, "H103")
            self._reply(QUIT)

    def _take(self, data: bytes) -> None:
        if data:
            self._reader.feed(data)
            return
        request = self._reader.finish()
        self._reply(self._answer(request))

    def _answer(self, request: Request) -> bytes:
        """Asked again who it is: a peer that has died or changed since gets nothing."""
        try:
            peer = self._attestation.attest(self._sock)
        except NotAttested as error:
            self._issuer.refused(self._peer, error.code)
            return QUIT
        return self._issuer.answer(peer, request)

    def _reply(self, answer: bytes) -> None:
        try:
            # Shorter than any socket buffer, and the buffer is empty: sent whole or not at all.
            self._sock.send(answer)
        except OSError:
            pass
        self.close()

    def _too_late(self) -> None:
        self._issuer.refused(self._peer, "H103")
        self.close()


def credential_port(loop: Loop, attestation: Attestation, issuer: Issuer) -> Serve:
    def serve(sock: socket.socket, lost: Callable[[], None]) -> Conversation | None:
        try:
            peer = attestation.attest(sock)
        except NotAttested as error:
            sock.close()
            issuer.report(Report(event=Event.PEER_REFUSED, uid=error.uid, code=error.code))
            return None
        conversation = Conversation(loop, sock, peer, attestation, issuer, lost)
        conversation.start()
        return conversation

    return serve
