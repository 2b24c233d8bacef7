"""One sidecar's whole life before the fork: hostd, the broker and the sandbox are played by us.

What it runs has then run once: types have found their methods, code is adapted to what it meets,
OpenSSL has its tables. Nothing of it is left but that.
"""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final, cast

from twisted.internet.error import ConnectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.listeners import LISTENERS, Listener, listener
from gitmoat.messages.sidecar import parse_config
from gitwire.http import Length
from identity.certificates import public_key
from identity.peer import find_means
from identity.tlsoptions import PinnedServer
from sidecar.logs import lines_to
from sidecar.service import Service
from streams.epoll import Epoll
from streams.incoming import Incoming
from streams.seqpacket import SeqpacketConnection
from streams.server import ServerConnection
from streams.tls import Tls

_PATIENCE: Final = 20.0
_REQUESTS: Final = 12  # after eight calls Python adapts a function to what it meets
_BROKER, _SIDECAR = bytes([1] * 32), bytes([2] * 32)
_POLICY: Final = {
    "version": 1,
    "name": "rehearsal",
    "session": {"ttl": "8h", "idle": "4h", "max_ttl": "1d"},
    "git": [
        {
            "id": "all",
            "repos": ["hub:**"],
            "fetch": True,
            "push": {"branches": ["agent/**"], "create": True, "update": True},
            "who": ["helper", "untrusted"],
        }
    ],
    "egress": [{"id": "web", "hosts": ["*.example.org"], "ports": [443]}],
}
_UPSTREAMS: Final = {
    "upstreams": [{"name": "hub", "hosts": ["hub.example"], "case_insensitive": True}],
    "idle": 60,
}
_ASK: Final = (
    b"GET /hub.example/a/b.git/info/refs?service=git-upload-pack HTTP/1.1\r\n"
    b"Host: 127.0.0.1:419\r\n\r\n"
)
_ANSWER: Final = b"0000"
_HEADERS: Final = ((b"Content-Type", b"application/x-git-upload-pack-advertisement"),)


class Rehearsal:
    """Twisted's reactor is never installed, and closed in the end: a child has its own."""

    def __init__(self) -> None:
        self._loop: Any = Epoll()
        self._log_lines()
        # Nobody else can find its way there, and no path is too long for a socket.
        self._folder = tempfile.TemporaryDirectory(prefix="gitmoat-")
        self._place = os.open(self._folder.name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        fds = {each.name: self._listener(each).detach() for each in LISTENERS}
        self._broker = PinnedServer(_BROKER, lambda key: True)
        self._stopped = False
        self._links = 0
        config = parse_config(_config())
        us = frozenset({os.geteuid()})
        self._service = Service(self._loop, config, fds, _SIDECAR, self._over, us)
        control = self._connected(_CONTROL)
        self._hostd = SeqpacketConnection(self._loop, control, self._told, lambda: None)

    def play(self) -> None:
        """From activation to stop."""
        try:
            self._order("activate")
            self._until(lambda: self._links == 2)
            for _ in range(_REQUESTS):
                self._sandbox_asks()
            self._order("stop")
            self._until(lambda: self._stopped)
            self._hostd.close()
            self._until(self._nothing_left)
        finally:
            self._loop.waker.connectionLost(Failure(ConnectionDone()))
            self._loop._poller.close()
            os.close(self._place)
            self._folder.cleanup()

    def _listener(self, row: Listener) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, row.kind)
        made.bind(self._name(row))
        if row.kind != socket.SOCK_DGRAM:
            made.listen()
        return made

    def _connected(self, row: Listener) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, row.kind)
        made.connect(self._name(row))
        return made

    def _name(self, row: Listener) -> str:
        return f"/proc/self/fd/{self._place}/{row.name}"

    def _log_lines(self) -> None:
        Logger(observer=cast(Any, lines_to(io.StringIO()))).info("{what}", what="x")

    def _over(self) -> None:
        self._stopped = True

    def _order(self, operation: str, *fds: int) -> None:
        self._hostd.send(b'{"op":"%s"}' % operation.encode(), fds)

    def _told(self, data: bytes, fds: list[int]) -> None:
        if data[:1] == b"D":
            self._dial()

    def _dial(self) -> None:
        near, far = socket.socketpair()
        with near:
            self._order("connection", near.fileno())
        server = ServerConnection(self._loop, self._serve, secure=True)
        Tls(self._loop, far, server, self._broker.connection(), self._linked).start()

    def _linked(self, _: object) -> None:
        self._links += 1

    def _serve(self, incoming: Incoming) -> None:
        out = incoming.begin(200, _HEADERS, Length(len(_ANSWER)))
        out.write(_ANSWER)
        out.finish()

    def _sandbox_asks(self) -> None:
        with self._connected(_UNTRUSTED) as client:
            client.sendall(_ASK)
            client.setblocking(False)
            heard = b""

            def answered() -> bool:
                nonlocal heard
                try:
                    heard += client.recv(4096)
                except BlockingIOError:
                    return False
                return heard.endswith(_ANSWER)

            self._until(answered)

    def _until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError("the rehearsal of a sidecar came to nothing")
            self._loop.iterate(0.01)

    def _nothing_left(self) -> bool:
        return self._loop.getReaders() == [self._loop.waker] and not self._loop.getDelayedCalls()


_UNTRUSTED, _CONTROL = listener("untrusted_git"), listener("control")


def _config() -> bytes:
    return json.dumps(
        {
            "schema": "gitmoat.sidecar/1",
            "sandbox": "rehearsal",
            "session": "rehearsal",
            "uids": {"sidecar": 1, "helper": 2, "untrusted": 3},
            "helper_cgroups": None,
            "peer": find_means().value,
            "broker_keys": [base64.b64encode(public_key(_BROKER)).decode()],
            "policy": _POLICY,
            "upstreams": _UPSTREAMS,
            "dial_cap": 16,
            "egress_cap": 8,
        }
    ).encode()
