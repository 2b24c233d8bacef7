"""Accepting on a listener that somebody else made, within a number of connections and a rate.

Twisted's own Unix port would make a path of its own, and chmod it to 0666.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.limits.buckets import TokenBucket
from gitmoat.net.timing import Timer, cancel
from gitmoat.net.transport.seqpacket import Reactor

_BATCH = 16
_REST = 0.5
# Linux reports here what has happened to the new connection itself (accept(2), "Error handling"):
# the client went away, or netfilter refused it. The next one may be fine.
_NEXT = frozenset({errno.ECONNABORTED, errno.EPERM, errno.EPROTO, errno.EINTR, errno.ENOTCONN})


@implementer(IReadDescriptor)
class Acceptor:
    """Hands over accepted sockets; at `limit`, if any, it leaves the rest to the kernel's backlog.

    Twisted's own port survives EMFILE by opening /dev/null, which a confined process cannot do;
    it would then be woken for the same connection for ever. This one rests.
    """

    _log = Logger()

    def __init__(
        self,
        loop: Reactor,
        listener: socket.socket,
        limit: int | None,
        on_connection: Callable[[socket.socket], None],
        rate: TokenBucket | None = None,
    ) -> None:
        """`on_connection` owns the socket, unless it raises: then it has not taken it. `ended`
        must be called once for each, where there is a limit."""
        listener.setblocking(False)
        self._loop = loop
        self._listener = listener
        self._limit = limit
        self._on_connection = on_connection
        self._rate = rate
        self._open = 0
        self._reading = False
        self._rest: Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Listen, unless resting, full or closed."""
        resting = self._rest is not None and self._rest.active()
        if not (self._full or resting or self._reading or self._closed):
            self._reading = True
            self._loop.addReader(self)

    def ended(self) -> None:
        """One of the accepted connections is gone."""
        self._open -= 1
        self.start()

    def close(self) -> None:
        if not self._closed:
            self._pause()
            cancel(self._rest)
            self._closed = True
            self._listener.close()

    def fileno(self) -> int:
        return self._listener.fileno()

    def logPrefix(self) -> str:
        return "accept"

    def connectionLost(self, reason: Failure) -> None:
        """The reactor dropped us because a handler failed: one fault must not end the service."""
        self._reading = False
        if not self._closed:
            self._rest_a_while()

    def doRead(self) -> None:
        for _ in range(_BATCH):
            if self._full:
                self._pause()
                return
            if self._too_fast() or not self._accept_one():
                return

    @property
    def _full(self) -> bool:
        return self._limit is not None and self._open >= self._limit

    def _too_fast(self) -> bool:
        """Beyond the rate connections wait in the kernel, and cost nothing here."""
        wait = self._rate.wait(self._loop.seconds()) if self._rate is not None else 0.0
        if wait:
            self._pause()
            self._rest_a_while(wait)
        return wait > 0

    def _accept_one(self) -> bool:
        """Whether to try for another one."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            return self._failed(error)
        self._open += 1
        if self._rate is not None:
            self._rate.take(self._loop.seconds())
        try:
            self._hand_over(connection)
        except OSError as error:
            return self._failed(error)
        return not self._closed

    def _hand_over(self, connection: socket.socket) -> None:
        taken = False
        try:
            self._on_connection(connection)
            taken = True
        finally:
            if not taken:
                connection.close()
                self._open -= 1

    def _failed(self, error: OSError) -> bool:
        if error.errno in _NEXT:
            return True
        self._log.warn("cannot accept: {why}", why=errno.errorcode.get(error.errno or 0, "?"))
        self._pause()
        self._rest_a_while()
        return False

    def _rest_a_while(self, seconds: float = _REST) -> None:
        cancel(self._rest)
        self._rest = self._loop.callLater(seconds, self._rested)

    def _rested(self) -> None:
        self._rest = None
        self.start()

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.removeReader(self)
