"""The admin socket: one line of JSON asks, one line answers; root only."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable
from typing import Any, cast

from attrs import define
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from audit.events import PeerRefused
from audit.journal import Journal, JournalUnavailable
from broker.errors import Problem
from broker.helper_link import HelperLink
from identity.controlsocket import peer_uid
from streams.accepting import Acceptor

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
        try:
            self.journal.record(PeerRefused(code="C102", peer_uid=uid, op="admin"), durable=False)
        except JournalUnavailable as error:
            log.error("refused peer not recorded: {what}", what=error.what)
        return False

    def offers_helpers(self, line: bytes) -> bool:
        try:
            return bool(json.loads(line) == {"op": HELPERS})
        except (ValueError, RecursionError):
            return False

    def answer(self, line: bytes, uid: int) -> Deferred[Fields]:
        return maybeDeferred(self._run, line, uid).addCallbacks(_done, _failed)

    def _run(self, line: bytes, uid: int) -> Fields | Deferred[Fields]:
        try:
            fields = json.loads(line)
            operation = self.operations[fields["op"]]
        except (ValueError, RecursionError, KeyError, TypeError):
            fix = "one JSON object on one line, with a known op"
            raise Problem("C105", "the request is not understood", "", fix) from None
        return operation(fields, uid)


def _done(fields: Fields) -> Fields:
    return {"ok": True, **fields}


def _failed(failure: Failure) -> Fields:
    failure.trap(Problem, sqlite3.Error)
    if isinstance(failure.value, Problem):
        return {"error": failure.value.mapping()}
    problem = Problem("B103", "the broker's store cannot be written", str(failure.value))
    return {"error": problem.mapping()}


class _Conversation(LineOnlyReceiver):
    """One request, one answer, the end; but for hostd's link, which stays."""

    delimiter = b"\n"
    MAX_LENGTH = _LINE

    def __init__(self, admin: Admin, clock: Any) -> None:
        self._admin = admin
        self._clock = clock
        self._uid = -1
        self._timer: Any = None
        self._is_link = False

    def connectionMade(self) -> None:
        self._uid = peer_uid(cast(Any, self.transport).socket)
        self._timer = self._clock.callLater(_SECONDS, self._abort)
        if not self._admin.permits(self._uid):
            self._abort()

    def lineReceived(self, line: bytes) -> None:
        if self._is_link:
            self._admin.link.heard(line)
        elif self._admin.offers_helpers(line):
            self._is_link = True
            self._timer.cancel()
            self._admin.link.attend(self.transport)
        else:
            self._timer.reset(_ANSWER_SECONDS)
            answered = self._admin.answer(line, self._uid)
            answered.addCallbacks(self._say, self._broken)

    def _say(self, answer: Fields) -> None:
        transport = cast(Any, self.transport)
        transport.write(json.dumps(answer).encode() + b"\n")
        transport.loseConnection()

    def _broken(self, failure: Failure) -> None:
        """A fault of ours ends this one request, and shows in the log."""
        log.failure("an operation failed", failure)
        self._abort()

    def lineLengthExceeded(self, line: bytes) -> None:
        self._abort()

    def connectionLost(self, reason: object = None) -> None:
        if self._timer.active():
            self._timer.cancel()
        if self._is_link:
            self._admin.link.lost(self.transport)

    def _abort(self) -> None:
        cast(Any, self.transport).abortConnection()


class _Conversations(Factory[Protocol]):
    noisy = False

    def __init__(self, admin: Admin, clock: Any) -> None:
        self._admin = admin
        self._clock = clock

    def buildProtocol(self, addr: object) -> Protocol:
        return _Conversation(self._admin, self._clock)


def serve_admin(reactor: Any, sock: socket.socket, admin: Admin) -> Acceptor:
    """Takes over a listening socket."""
    factory = _Conversations(admin, reactor)

    def accepted(connection: socket.socket) -> None:
        reactor.adoptStreamConnection(connection.fileno(), connection.family, factory)
        connection.close()

    acceptor = Acceptor(reactor, sock, None, accepted)
    acceptor.start()
    return acceptor
