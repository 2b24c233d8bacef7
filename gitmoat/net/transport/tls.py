"""A TLS connection as a transport: records are handled by the batch, not one by one.

Twisted's own delivers each record of 16 KiB by itself and encrypts in such slices.
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any, Final

from OpenSSL import SSL
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHandshakeListener
from twisted.python.failure import Failure

from gitmoat.net.transport import openssl
from gitmoat.net.transport.descriptor import Descriptor, Then
from gitmoat.net.transport.seqpacket import Reactor

_RECORD: Final = 16 * 1024
_LINGER: Final = 30.0  # for the peer's close_notify after ours


class Tls(Descriptor):
    """`end` is ours of TLS, in a state to connect or to accept; `verify` says what is wrong
    with the peer that has shaken hands with it.

    The peer's close_notify is the end of the connection. TLS 1.3 would let us go on sending (RFC
    8446, section 6.1); TLS 1.2 did not (RFC 5246, section 7.2.1), and one rule serves both.
    Before the handshake is complete the protocol hears nothing and what it writes waits.
    """

    def __init__(
        self,
        loop: Reactor,
        sock: socket.socket,
        protocol: Any,
        end: SSL.Connection,
        verify: Callable[[SSL.Connection], Exception | None] = lambda _: None,
    ) -> None:
        super().__init__(loop, sock, protocol)
        self._tls = end
        self._records = openssl.records_of(end)
        self._verify = verify
        self._shaken = False
        self._clear: deque[bytes | memoryview] = deque()  # not encrypted yet
        self._linger: Any = None

    def start(self) -> None:
        super().start()
        if self._open:
            self._step()

    @property
    def queued(self) -> int:
        return super().queued + sum(map(len, self._clear))

    def getHandle(self) -> Any:
        return None if self._gone else self._tls

    def loseConnection(self) -> None:
        """Say that we are done, and read on until the peer is."""
        if self._open:
            if not self._shaken:
                self.abortConnection()
                return
            self.release_all()
            self._read_on()
            self._end(Then.HALF_CLOSE)
            self._linger = self._loop.callLater(_LINGER, self.abortConnection)
            self._say_goodbye()

    def loseWriteConnection(self) -> None:
        self.loseConnection()

    def doRead(self) -> Exception | None:
        try:
            count = self._sock.recv_into(openssl.INTO, self._read_size.size)
        except BlockingIOError:
            return None
        except OSError as error:
            return ConnectionLost(error.strerror or "")
        if not count:
            # Without a close_notify before it anybody on the way can have made this end: a
            # truncation attack (RFC 8446, section 6.1).
            return ConnectionLost("the peer closed without saying so")
        began = thread_time()
        self._records.take(count)
        try:
            self._step()
        finally:
            self._records.forget()
        self._read_size.took(count, thread_time() - began)
        return None

    def readConnectionLost(self, reason: Failure) -> None:
        self.connectionLost(reason)

    def connectionLost(self, reason: Failure) -> None:
        if self._gone:
            return
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        self._clear.clear()
        super().connectionLost(reason)
        # Some 60 KiB, which reference cycles would keep until the collector runs.
        del self._tls, self._records

    # Inside

    def _step(self) -> None:
        """Use what has come."""
        if not self._shaken and not self._shake():
            return
        data, over = self._records.decrypt()
        if over is not None or not data:
            # An alert, or an answer to what was no data; to data TLS itself answers nothing.
            self._push()
        if self._clear:
            self._encrypt()
        if data and not self._gone and not self._broken:
            self.protocol.dataReceived(data)
        if over is not None and not self._gone and not self._broken:
            self._over(over)

    def _shake(self) -> bool:
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            self._push()
            return False
        except SSL.Error as error:
            self._push()  # the alert
            self._break(error)
            return False
        # Before our last words of the handshake leave.
        wrong = self._verify(self._tls)
        if wrong is not None:
            self._break(wrong)
            return False
        self._push()
        self._shaken = True
        if IHandshakeListener.providedBy(self.protocol):
            self.protocol.handshakeCompleted()
        self._encrypt()
        return not self._gone and not self._broken

    def _over(self, reason: Exception) -> None:
        if not isinstance(reason, ConnectionDone):
            self._break(reason)
            return
        # The peer's orderly end: what it sends after that is ignored (RFC 8446, section 6.1). What
        # is written still goes out, with our own end behind it.
        self._read_no_more()
        if self._then is Then.GO_ON:
            self._say_goodbye()
        self._end(Then.CLOSE)

    def _send(self, pieces: Sequence[bytes | memoryview]) -> None:
        if sum(map(len, pieces)) <= _RECORD:
            pieces = (b"".join(pieces),)
        self._clear.extend(filter(None, pieces))
        if self._shaken:
            self._encrypt()

    def _encrypt(self) -> None:
        while self._clear:
            piece = self._clear[0]
            try:
                sent = self._tls.send(piece)
            except SSL.WantReadError:
                break  # TLS has something to hear first (SSL_write(3)); the next read goes on here
            except SSL.Error as error:
                self._break(error)
                return
            if sent < len(piece):
                self._clear[0] = memoryview(piece)[sent:]
            else:
                self._clear.popleft()
        self._push()

    def _push(self) -> None:
        """Hand what TLS wants to send to the socket."""
        more = True
        while more:
            data = self._records.pull()
            if data:
                super()._send((data,))
            more = len(data) == openssl.ROOM

    def _say_goodbye(self) -> None:
        try:
            self._tls.shutdown()
        except SSL.Error as error:
            self._break(error)
            return
        self._push()

    def _half_close(self) -> Exception | None:
        """Our close_notify has been sent; the end of the socket follows it at once, which TLS does
        not ask for (RFC 8446, section 6.1): a peer that does not read now would not see the record,
        but its kernel tells it of the socket's end (EPOLLRDHUP, epoll_ctl(2))."""
        return super()._half_close()
