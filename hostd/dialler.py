"""Opens TCP connections to the broker in the host's namespace, to be passed to a sidecar."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from twisted.internet import abstract
from twisted.internet.defer import Deferred

_TIMEOUT = 5.0


class _Connecting(abstract.FileDescriptor):
    """A plain socket until it is connected: no Twisted transport may ever own it."""

    def __init__(self, reactor: Any, address: tuple[str, int]) -> None:
        super().__init__(reactor)
        self._reactor = reactor
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.done: Deferred[socket.socket] = Deferred()
        self._timer = reactor.callLater(_TIMEOUT, self._failed, errno.ETIMEDOUT)
        result = self._socket.connect_ex(address)
        if result in (0, errno.EINPROGRESS):
            reactor.addWriter(self)
        else:
            reactor.callLater(0, self._failed, result)

    def fileno(self) -> int:
        return self._socket.fileno()

    def doWrite(self) -> None:
        result = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            self._failed(result)
            return
        self._stop()
        self.done.callback(self._socket)

    def connectionLost(self, reason: Any) -> None:
        """epoll reports a refused connection as a hang-up, not as writable."""
        if not self.done.called:
            result = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self._failed(result or errno.ECONNRESET)

    def _stop(self) -> None:
        self._reactor.removeWriter(self)
        if self._timer.active():
            self._timer.cancel()

    def _failed(self, number: int) -> None:
        if self.done.called:
            return
        self._stop()
        self._socket.close()
        self.done.errback(OSError(number, os.strerror(number)))


def dial(reactor: Any, address: tuple[str, int]) -> Deferred[socket.socket]:
    """A connected, non-blocking socket; OSError when there is none within five seconds."""
    return _Connecting(reactor, address).done
