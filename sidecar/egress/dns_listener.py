"""DNS on UDP and on TCP: datagrams and messages in, answers out."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.timing import Timer, cancel
from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.wire.dns import MAX_QUERY
from sidecar.egress.dns_answers import DnsAnswers
from sidecar.loop import Loop
from sidecar.port.ports import Serve

MOST: Final = 64  # datagrams of one turn
_LARGEST: Final = MAX_QUERY + 1  # so that too long is seen
_IDLE: Final = 10.0
_MOST_QUESTIONS: Final = 100


@implementer(IReadDescriptor)
class DnsDatagrams:
    """Several datagrams per turn of the loop; a flood leaves room for everybody else."""

    def __init__(self, loop: Loop, sock: socket.socket, answers: DnsAnswers) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._socket = sock
        self._answers = answers
        self._closed = False

    def start(self) -> None:
        self._loop.addReader(self)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.removeReader(self)
            self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def logPrefix(self) -> str:
        return "dns"

    def connectionLost(self, reason: Failure) -> None:
        """The reactor dropped us because a handler failed: one fault must not end the service."""
        if not self._closed:
            self._loop.callLater(0, self.start)

    def doRead(self) -> None:
        """At most so many, so that whatever else is ready has its turn during a flood."""
        for _ in range(MOST):
            try:
                data, place = self._socket.recvfrom(_LARGEST)
            except OSError:
                break
            made = self._answers.reply(data)
            if made is not None:
                with suppress(OSError):  # it has gone, or does not read: it may ask again
                    self._socket.sendto(made, place)
        self._answers.settle()


class _Conversation(Protocol):
    """One TCP connection: two octets of length before each message.

    It answers so many questions, then says that it is done and reads on until its client has
    closed too: to close with questions unread is a reset, which takes the answers along.
    """

    def __init__(self, loop: Loop, answers: DnsAnswers, on_lost: Callable[[], None]) -> None:
        self._loop = loop
        self._answers = answers
        self._on_lost = on_lost
        self._buffer = bytearray()
        self._left = _MOST_QUESTIONS
        self._timer: Timer | None = None

    def connectionMade(self) -> None:
        # From first to last: a connection is for a few questions, not for keeping.
        self._timer = self._loop.callLater(_IDLE, self.abort)

    def dataReceived(self, data: bytes) -> None:
        if self._left == 0:
            return
        self._buffer += data
        while len(self._buffer) >= 2:
            size = int.from_bytes(self._buffer[:2])
            if size > MAX_QUERY:
                self._end()
                break
            if len(self._buffer) < 2 + size:
                break
            message = bytes(self._buffer[2 : 2 + size])
            del self._buffer[: 2 + size]
            self._answer(message)
        self._answers.settle()

    def _answer(self, message: bytes) -> None:
        self._left -= 1
        made = self._answers.reply(message)
        transport: Any = self.transport
        if made is not None:
            transport.write(len(made).to_bytes(2) + made)
        if made is None or self._left == 0:
            self._end()

    def _end(self) -> None:
        """No further answers; those that were given still go out (RFC 7766, 6.2.3)."""
        self._buffer.clear()
        self._left = 0
        transport: Any = self.transport
        transport.loseWriteConnection()

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        transport: Any = self.transport
        transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        cancel(self._timer)
        self._on_lost()


def dns_port(loop: Loop, answers: DnsAnswers) -> Serve:
    """DNS on TCP."""

    def serve(sock: socket.socket, lost: Callable[[], None]) -> _Conversation:
        conversation = _Conversation(loop, answers, lost)
        Descriptor(loop, sock, conversation).start()
        return conversation

    return serve
