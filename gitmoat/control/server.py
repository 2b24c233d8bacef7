"""A daemon's end of a control socket: who may speak, and lines in and out."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from gitmoat.control.lines import LineReader, TooLong, line_of
from gitmoat.identity.control_socket import peer_uid
from gitmoat.net.transport.accepting import Acceptor


class Conversation(Protocol):
    """One connection. `permits` is asked once, before anything is read."""

    def __init__(self, limit: int) -> None:
        self._lines = LineReader(limit)
        self._hears = False
        self.uid = -1
        self.open = False

    def permits(self, uid: int) -> bool:
        raise NotImplementedError

    def heard(self, line: bytes) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        """The connection of a permitted peer has ended."""

    @property
    def wire(self) -> Any:
        return self.transport

    def say(self, message: Mapping[str, Any]) -> None:
        if self.open:
            self.wire.write(line_of(message))

    def drop(self) -> None:
        """What was said still goes out; what comes in now is not looked at any more."""
        self._hears = False
        self.wire.loseConnection()

    def connectionMade(self) -> None:
        self.uid = peer_uid(self.wire.getHandle())
        try:
            self.open = self._hears = self.permits(self.uid)
        finally:  # also where a refusal cannot be recorded
            if not self.open:
                self.drop()

    def dataReceived(self, data: bytes) -> None:
        if not self._hears:
            return
        try:
            lines = self._lines.feed(data)
        except TooLong:
            self.drop()
            return
        for line in lines:
            if self._hears:
                self.heard(line)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        was_open, self.open = self.open, False
        if was_open:
            self.lost()


def serve(
    reactor: Any, listener: socket.socket, conversation: Callable[[], Conversation]
) -> Acceptor:
    """Takes over a listening socket. Twisted's own Unix port would chmod its path to 0666."""
    factory = Factory.forProtocol(conversation)
    factory.noisy = False

    def accepted(connection: socket.socket) -> None:
        reactor.adoptStreamConnection(connection.fileno(), connection.family, factory)
        connection.close()

    acceptor = Acceptor(reactor, listener, None, accepted)
    acceptor.start()
    return acceptor
