"""Everything a sidecar will ever need, imported and run once before the fork.

A confined child cannot import: a module first needed there is a crash. No reactor is made here,
because its epoll descriptor would be shared by every child.
"""

from __future__ import annotations

import codecs
import importlib
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from gitwire.http import Length, NoBody, ResponseHead, format_request
from identity.certificates import key_of, self_signed
from identity.tlsoptions import PinnedClient, PinnedServer
from streams.client import ClientConnection
from streams.incoming import Incoming
from streams.server import ServerConnection
from streams.tls import Tls

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
_TURNS: Final = 12
_CODECS: Final = ("ascii", "idna", "latin-1", "utf-8")


def warm() -> None:
    """Call once in the zygote."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _CODECS:
        codecs.lookup(name)
    time.localtime()
    _log_a_failure()
    _exchange()
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a reactor exists before the fork")


def _log_a_failure() -> None:
    """The path an unexpected error takes, with its traceback."""
    try:
        raise ConnectionDone
    except ConnectionDone:
        Failure().getTraceback()


class _Turns(Clock):
    """A reactor for a few turns: whoever reads or writes is asked to, in turn."""

    def __init__(self) -> None:
        super().__init__()
        self._readers: set[Any] = set()
        self._writers: set[Any] = set()

    def addReader(self, reader: Any) -> None:
        self._readers.add(reader)

    def removeReader(self, reader: Any) -> None:
        self._readers.discard(reader)

    def addWriter(self, writer: Any) -> None:
        self._writers.add(writer)

    def removeWriter(self, writer: Any) -> None:
        self._writers.discard(writer)

    def turn(self) -> None:
        self.advance(0)
        for each in tuple(self._writers):
            each.doWrite()
        for each in tuple(self._readers):
            each.doRead()


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


def _exchange() -> None:
    """One handshake and one request, both ends ours: OpenSSL, TLS, HTTP have then all run."""
    loop = _Turns()
    server_seed, client_seed = bytes([1] * 32), bytes([2] * 32)
    server_key = _public(server_seed)
    heard = _Heard()
    client = ClientConnection(loop, on_ready=_request(heard))
    server = ServerConnection(loop, _reply, secure=True)
    near, far = socket.socketpair()
    ends = (
        Tls(
            loop,
            near,
            client,
            PinnedClient(client_seed, lambda: frozenset({server_key})).connection(),
        ),
        Tls(loop, far, server, PinnedServer(server_seed, lambda key: True).connection()),
    )
    for end in ends:
        end.start()
    for _ in range(_TURNS):
        loop.turn()
    for end in ends:
        end.abortConnection()
    loop.turn()
    if heard.status != 200 or not heard.whole:
        raise RuntimeError("our two ends did not understand each other")


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
