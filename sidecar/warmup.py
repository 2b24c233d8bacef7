"""Everything a sidecar will ever need, imported and run once before the fork.

A confined child cannot import: a module first needed there is a crash. No reactor is made here,
because its epoll descriptor would be shared by every child.
"""

from __future__ import annotations

import codecs
import importlib
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from gitwire.http import Length, NoBody, ResponseHead, format_request
from identity.certificates import key_of, self_signed
from identity.tlsoptions import PinnedClient, PinnedServer, over_tls
from streams.client import ClientConnection
from streams.incoming import Incoming
from streams.server import ServerConnection

# Imported lazily by Python or Twisted; most of them only when something goes wrong.
_MODULES: Final = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.utf_8",
    "linecache",
    "stringprep",
    "tokenize",
    "traceback",
    "twisted.internet.epollreactor",
    "twisted.internet.tcp",
    "twisted.internet.unix",
    "twisted.logger",
    "twisted.python.log",
    "unicodedata",
)
_CODECS: Final = ("ascii", "idna", "latin-1", "utf-8")


def warm() -> None:
    """Call once in the zygote."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _CODECS:
        codecs.lookup(name)
    time.localtime()
    _log_a_failure()
    _exchange_in_memory()
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a reactor exists before the fork")


def _log_a_failure() -> None:
    """The path an unexpected error takes, with its traceback."""
    try:
        raise ConnectionDone
    except ConnectionDone:
        Failure().getTraceback()


class _Pipe:
    """One direction's transport in memory."""

    def __init__(self) -> None:
        self.written: deque[bytes] = deque()

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writeSequence(self, data: Sequence[bytes]) -> None:
        self.written.extend(data)

    def take(self) -> bytes:
        data = b"".join(self.written)
        self.written.clear()
        return data

    def nothing(self, *_: object) -> None:
        """Flow and closing have no meaning here."""

    registerProducer = unregisterProducer = nothing  # noqa: N815
    pauseProducing = resumeProducing = nothing  # noqa: N815
    loseConnection = abortConnection = nothing  # noqa: N815


class _End:
    """One of our connections over TLS over a pipe."""

    def __init__(
        self, creator: PinnedClient | PinnedServer, protocol: Protocol, clock: Clock
    ) -> None:
        factory: Factory[Any] = Factory.forProtocol(lambda: protocol)
        self.pipe = _Pipe()
        wrapper = over_tls(creator, factory, cast(IReactorTime, clock))
        self.tls: Any = wrapper.buildProtocol(cast(Any, None))

    def start(self) -> None:
        self.tls.makeConnection(self.pipe)


def _join(one: _End, other: _End, clock: Clock) -> None:
    while True:
        clock.advance(0)
        upward, downward = one.pipe.take(), other.pipe.take()
        if not upward and not downward:
            return
        if upward:
            other.tls.dataReceived(upward)
        if downward:
            one.tls.dataReceived(downward)


class _Heard:
    """A response that arrived."""

    def __init__(self) -> None:
        self.status = 0
        self.whole = False

    def response(self, head: ResponseHead) -> None:
        self.status = head.status

    def body(self, data: bytes) -> None:
        """Its content does not matter."""

    def body_done(self) -> None:
        self.whole = True

    def failed(self, why: str) -> None:
        """Seen by `whole`."""


def _exchange_in_memory() -> None:
    """One handshake and one request, both ends ours: OpenSSL, TLS, HTTP have then all run."""
    clock = Clock()
    server_seed, client_seed = bytes([1] * 32), bytes([2] * 32)
    server_key = _public(server_seed)
    heard = _Heard()
    client = ClientConnection(clock, on_ready=_request(heard))
    server = ServerConnection(clock, _reply, secure=True)
    near = _End(PinnedClient(client_seed, lambda: frozenset({server_key})), client, clock)
    far = _End(PinnedServer(server_seed, lambda key: True), server, clock)
    near.start()
    far.start()
    _join(near, far, clock)
    if heard.status != 200 or not heard.whole:
        raise RuntimeError("the exchange in memory failed")
    for end in (near, far):
        end.tls.connectionLost(Failure(ConnectionDone()))


def _request(heard: _Heard) -> Callable[[ClientConnection], None]:
    def send(client: ClientConnection) -> None:
        head = format_request(b"GET", b"/", [(b"Host", b"gitmoat")])
        client.send(head, NoBody(), heard)

    return send


def _reply(incoming: Incoming) -> None:
    out = incoming.begin(200, ((b"Content-Type", b"text/plain"),), Length(3))
    out.write(b"ok\n")
    out.finish()


def _public(seed: bytes) -> bytes:
    _, certificate = self_signed(seed)
    key = key_of(certificate)
    if key is None:
        raise RuntimeError("a certificate of ours carries no key")
    return key
