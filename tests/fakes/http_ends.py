"""Peers, sinks and handlers for HTTP connections under test."""

import errno
import socket
from collections.abc import Callable
from typing import Any

from twisted.python.failure import Failure

from gitmoat.net.causes import Why
from gitmoat.net.http.ends import ClientConnection, Incoming, Outgoing, ServerConnection, Timeouts
from gitmoat.wire.http.heads import Piece, RequestReader, ResponseHead
from tests.fakes.hand_loop import HandLoop, small_pair

TEXT = ((b"Content-Type", b"text/plain"),)
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n"


class RawPeer:
    """The other end of a connection as plain bytes; never blocks."""

    def __init__(self, loop: HandLoop, sock: socket.socket) -> None:
        self.loop = loop
        self.sock = sock
        self.heard = b""
        self.ended = False
        self.reset = False
        sock.setblocking(False)

    def say(self, data: bytes) -> None:
        """Send all of it, turning the loop; the other end must take it."""
        taken = self.say_some(data)
        assert taken == len(data), "the other end takes no more"
        self.loop.settle()

    def say_some(self, data: bytes) -> int:
        """Send until the other end takes no more; return how much it took."""
        taken = stuck = 0
        while taken < len(data) and stuck < 2:
            try:
                taken += self.sock.send(data[taken : taken + 65536])
                stuck = 0
            except BlockingIOError:
                stuck += 1
                self.loop.settle()
        return taken

    def pour(self, data: bytes, reader: "RawPeer") -> None:
        """Send all of it while `reader` reads what comes of it."""
        at = 0
        while at < len(data):
            at += self.say_some(data[at:])
            assert reader.hear() or at == len(data), "nothing moves"
        reader.hear()

    def hear(self, most: int = 2**30) -> bytes:
        """What there is to read now, at most `most` bytes of it; kept in `heard` too."""
        self.loop.settle()
        got = []
        while most > 0 and not self.ended and not self.reset:
            piece = self._receive(min(most, 65536))
            if not piece:
                break
            got.append(piece)
            most -= len(piece)
            self.loop.settle()
        data = b"".join(got)
        self.heard += data
        return data

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)
        self.loop.settle()

    def close(self) -> None:
        self.sock.close()
        self.loop.settle()

    def reset_now(self) -> None:
        """Close so that the other end sees a reset (TCP only)."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close()

    def _receive(self, most: int) -> bytes:
        try:
            data = self.sock.recv(most)
        except BlockingIOError:
            return b""
        except OSError as error:
            assert error.errno in (errno.ECONNRESET, errno.EPIPE)
            self.reset = True
            return b""
        self.ended = not data
        return data


class Recorder:
    """A sink for requests and for responses that keeps what it gets."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.pieces: list[bytes] = []
        self.ends: list[str] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def response(self, head: ResponseHead) -> None:
        assert self.head is None and not self.ends
        self.head = head

    def body(self, *pieces: Piece) -> None:
        assert pieces and all(pieces) and not self.ends
        self.pieces.append(b"".join(pieces))

    def body_done(self) -> None:
        self.ends.append("done")

    def body_failed(self, why: Why) -> None:
        self.ends.append("failed")

    def failed(self, why: Why) -> None:
        self.ends.append(f"failed: {why.text}")


class Endless:
    """Writes as much as the transport takes, and says how much that was."""

    def __init__(self, loop: HandLoop, out: Outgoing, most: int = 2**40) -> None:
        self.loop = loop
        self.out = out
        self.left = most
        self.written = 0
        self.paused = False
        out.bind_source(self._pause, self._resume)
        self._more()

    def _pause(self) -> None:
        self.paused = True

    def _resume(self) -> None:
        self.paused = False
        self.loop.callLater(0, self._more)

    def _more(self) -> None:
        while not self.paused and self.out.alive:
            if not self.left:
                self.out.finish()
                return
            piece = bytes(min(16384, self.left))
            self.left -= len(piece)
            self.written += len(piece)
            assert self.written < 2**28, "nobody pauses us"
            self.out.write(piece)


class Served:
    """A server connection, its client as raw bytes, and the requests it was given."""

    def __init__(
        self,
        on_request: Callable[[Incoming], None] | None = None,
        pair: Callable[[], tuple[socket.socket, socket.socket]] = small_pair,
        timeouts: Timeouts | None = None,
        loop: HandLoop | None = None,
        reader: Callable[[], RequestReader] = RequestReader,
    ) -> None:
        self.loop = HandLoop() if loop is None else loop
        self.requests: list[Incoming] = []
        self.malformed: list[str] = []
        self.lost = 0
        self.on_request = on_request
        near, far = pair()
        self.client = RawPeer(self.loop, far)
        self.connection = ServerConnection(
            self.loop,
            self._take,
            Timeouts() if timeouts is None else timeouts,
            on_malformed=lambda malformed: self.malformed.append(malformed.what),
            on_lost=self._lose,
            reader=reader,
        )
        self.transport: Any = self.loop.connect(self.connection, near)

    @property
    def last(self) -> Incoming:
        return self.requests[-1]

    def _take(self, incoming: Incoming) -> None:
        self.requests.append(incoming)
        if self.on_request is not None:
            self.on_request(incoming)

    def _lose(self) -> None:
        self.lost += 1


class Dialled:
    """A client connection and its server as raw bytes."""

    def __init__(
        self,
        pair: Callable[[], tuple[socket.socket, socket.socket]] = small_pair,
        timeouts: Timeouts | None = None,
        loop: HandLoop | None = None,
    ) -> None:
        self.loop = HandLoop() if loop is None else loop
        self.ready = self.lost = 0
        near, far = pair()
        self.server = RawPeer(self.loop, far)
        self.connection = ClientConnection(
            self.loop,
            Timeouts() if timeouts is None else timeouts,
            secure=False,
            on_ready=self._readies,
            on_lost=self._loses,
        )
        self.transport: Any = self.loop.connect(self.connection, near)

    def _readies(self, connection: ClientConnection) -> None:
        assert connection.idle
        self.ready += 1

    def _loses(self, connection: ClientConnection, reason: Failure) -> None:
        assert not connection.idle
        self.lost += 1


def get(target: bytes = b"/", more: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n" + more + b"\r\n"


def post(length: int | None, body: bytes = b"", more: bytes = b"") -> bytes:
    """With a length, or chunked without one; `body` is sent as it is."""
    framing = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    return b"POST /p HTTP/1.1\r\nHost: h\r\n" + framing + b"\r\n" + more + b"\r\n" + body


def hello(incoming: Incoming) -> None:
    incoming.reply(200, TEXT, b"hello\n")


def streaming(sink: Recorder) -> Callable[[Incoming], None]:
    def on_request(incoming: Incoming) -> None:
        incoming.stream(sink)

    return on_request
