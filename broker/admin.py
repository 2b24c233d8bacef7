"""The admin socket: one line of JSON asks, one line answers; root only."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable
from typing import Any, cast

from attrs import define
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver

from audit.events import PeerRefused
from audit.journal import Journal, JournalUnavailable
from broker.errors import Problem
from identity.controlsocket import peer_uid
from streams.seqpacket import SeqpacketListener

log = Logger()

_LINE = 256 * 1024
_SECONDS = 10.0

Fields = dict[str, Any]
Operation = Callable[[Fields, int], Fields]


@define(eq=False)
class Admin:
    """Answers from a table of operations; each gets the request and the asker's uid."""

    uid: int
    operations: dict[str, Operation]
    journal: Journal

    def permits(self, uid: int) -> bool:
        if uid == self.uid:
            return True
        try:
            self.journal.record(PeerRefused(code="C102", peer_uid=uid, op="admin"), durable=False)
        except JournalUnavailable as error:
            log.error("refused peer not recorded: {what}", what=error.what)
        return False

    def answer(self, line: bytes, uid: int) -> Fields:
        try:
            return {"ok": True, **self._run(line, uid)}
        except Problem as problem:
            return {"error": problem.mapping()}
        except sqlite3.Error as error:
            failed = Problem("B103", "the broker's store cannot be written", str(error))
            return {"error": failed.mapping()}

    def _run(self, line: bytes, uid: int) -> Fields:
        try:
            fields = json.loads(line)
            operation = self.operations[fields["op"]]
        except (ValueError, RecursionError, KeyError, TypeError):
            fix = "one JSON object on one line, with a known op"
            raise Problem("C105", "the request is not understood", "", fix) from None
        return operation(fields, uid)


class _Conversation(LineOnlyReceiver):
    """One request, one answer, the end."""

    delimiter = b"\n"
    MAX_LENGTH = _LINE

    def __init__(self, admin: Admin, clock: Any) -> None:
        self._admin = admin
        self._clock = clock
        self._uid = -1
        self._timer: Any = None

    def connectionMade(self) -> None:
        self._uid = peer_uid(cast(Any, self.transport).socket)
        self._timer = self._clock.callLater(_SECONDS, self._abort)
        if not self._admin.permits(self._uid):
            self._abort()

    def lineReceived(self, line: bytes) -> None:
        answer = self._admin.answer(line, self._uid)
        transport = cast(Any, self.transport)
        transport.write(json.dumps(answer).encode() + b"\n")
        transport.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        self._abort()

    def connectionLost(self, reason: object = None) -> None:
        if self._timer.active():
            self._timer.cancel()

    def _abort(self) -> None:
        cast(Any, self.transport).abortConnection()


class _Conversations(Factory[Protocol]):
    noisy = False

    def __init__(self, admin: Admin, clock: Any) -> None:
        self._admin = admin
        self._clock = clock

    def buildProtocol(self, addr: object) -> Protocol:
        return _Conversation(self._admin, self._clock)


def serve_admin(reactor: Any, sock: socket.socket, admin: Admin) -> SeqpacketListener:
    """Takes over a listening socket. Twisted's own Unix port would chmod its path to 0666."""
    factory = _Conversations(admin, reactor)

    def accepted(connection: socket.socket) -> None:
        reactor.adoptStreamConnection(connection.fileno(), connection.family, factory)
        connection.close()

    return SeqpacketListener(reactor, sock, accepted)
