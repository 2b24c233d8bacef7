"""The admin socket: one line of JSON asks, one line answers; root only."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.credentials.helper_link import HelperLink
from broker.exchange.recording import record_or_log
from broker.sessions.store.interface import StoreFailed
from gitmoat.audit.events import PeerRefused
from gitmoat.audit.journal import Journal
from gitmoat.control.lines import object_of
from gitmoat.control.server import Conversation, serve
from gitmoat.fault import Fault
from gitmoat.net.transport.accepting import Acceptor

log = Logger()

_LINE = 256 * 1024
_SECONDS = 10.0
_ANSWER_SECONDS = 60.0

Fields = dict[str, Any]
Operation = Callable[[Fields, int], Fields | Deferred[Fields]]

# What hostd says to offer itself for running credential helpers; the connection then stays.
HELPERS = "helpers"


@define(eq=False)
class Admin:
    """Answers from a table of operations; each gets the request and the asker's uid."""

    uid: int
    operations: dict[str, Operation]
    journal: Journal
    link: HelperLink

    def permits(self, uid: int) -> bool:
        if uid == self.uid:
            return True
        record_or_log(self.journal, PeerRefused(code="C102", peer_uid=uid, op="admin"))
        return False

    def offers_helpers(self, line: bytes) -> bool:
        return object_of(line) == {"op": HELPERS}

    def answer(self, line: bytes, uid: int) -> Deferred[Fields]:
        return maybeDeferred(self._run, line, uid).addCallbacks(_done, _failed)

    def _run(self, line: bytes, uid: int) -> Fields | Deferred[Fields]:
        fields = object_of(line) or {}
        operation = self.operations.get(str(fields.get("op")))
        if operation is None:
            fix = "one JSON object on one line, with a known op"
            raise Fault("C105", "the request is not understood", "", fix)
        return operation(fields, uid)


def _done(fields: Fields) -> Fields:
    return {"ok": True, **fields}


def _failed(failure: Failure) -> Fields:
    failure.trap(Fault, StoreFailed)
    if isinstance(failure.value, Fault):
        return {"error": failure.value.mapping()}
    problem = Fault("B103", "the broker's store cannot be written", str(failure.value))
    return {"error": problem.mapping()}


class _Conversation(Conversation):
    """One request, one answer, the end; but for hostd's link, which stays."""

    def __init__(self, admin: Admin, clock: Any) -> None:
        super().__init__(_LINE)
        self._admin = admin
        self._timer = clock.callLater(_SECONDS, self.drop)
        self._is_link = False

    def permits(self, uid: int) -> bool:
        return self._admin.permits(uid)

    def heard(self, line: bytes) -> None:
        if self._is_link:
            self._admin.link.heard(line)
        elif self._admin.offers_helpers(line):
            self._is_link = True
            self._timer.cancel()
            self._admin.link.attend(self.transport)
        else:
            self._timer.reset(_ANSWER_SECONDS)
            answered = self._admin.answer(line, self.uid)
            answered.addCallbacks(self._answer, self._broken)

    def _answer(self, answer: Fields) -> None:
        self.say(answer)
        super().drop()

    def _broken(self, failure: Failure) -> None:
        """A fault of ours ends this one request, and shows in the log."""
        log.failure("an operation failed", failure)
        self.drop()

    def drop(self) -> None:
        super().drop()
        self.wire.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._timer.active():
            self._timer.cancel()
        super().connectionLost(reason)

    def lost(self) -> None:
        if self._is_link:
            self._admin.link.lost(self.transport)


def serve_admin(reactor: Any, sock: socket.socket, admin: Admin) -> Acceptor:
    return serve(reactor, sock, lambda: _Conversation(admin, reactor))
