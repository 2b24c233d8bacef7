"""The socket on which hostd finds this sidecar: one connection counts, the newest."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Final, assert_never

from attrs import frozen
from twisted.logger import Logger

from gitmoat.identity.peer import Attestation, NotAttested
from gitmoat.messages.sidecar import (
    DIAL,
    Activate,
    Connection,
    DialFailed,
    Pins,
    ReplacePolicy,
    SelfTest,
    Stop,
    Verifying,
    parse_order,
    ready,
    serving,
    tested,
)
from gitmoat.net.transport.accepting import Acceptor
from gitmoat.net.transport.seqpacket import SeqpacketConnection
from gitmoat.shape import Misshapen
from sidecar.loop import Loop
from sidecar.prefork.selftest import run_selftest

ROOT: Final = frozenset({0})
_MOST_PIECES: Final = 64


@frozen
class Orders:
    """What to do at each message of hostd; `changed` at its coming and going."""

    activate: Callable[[], None]
    connection: Callable[[socket.socket], None]
    policy: Callable[[bytes], bytes]  # a mapping as JSON; returns the digest of what is in force
    dial_failed: Callable[[], None]
    pins: Callable[[frozenset[bytes]], None]
    verifying: Callable[[int], None]
    stop: Callable[[], None]
    changed: Callable[[], None]


class ControlSocket:
    """Says READY to a peer that is `admitted`, and DIAL when a connection is wanted."""

    _log = Logger()

    def __init__(
        self,
        loop: Loop,
        listener: socket.socket,
        public_key: bytes,
        orders: Orders,
        admitted: Attestation,
    ) -> None:
        self._loop = loop
        self._ready = ready(public_key)
        self._orders = orders
        self._admitted = admitted
        self._current: SeqpacketConnection | None = None
        self._acceptor = Acceptor(loop, listener, None, self._connected)
        self._acceptor.start()

    def dial(self) -> bool:
        """Ask for one broker connection; False when nobody is there to ask."""
        if self._current is None:
            return False
        self._current.send(DIAL)
        # A send can find out that hostd has gone; then this DIAL went nowhere.
        return self._current is not None

    def close(self) -> None:
        self._acceptor.close()
        if self._current is not None:
            self._current.close()
            self._current = None

    def _connected(self, sock: socket.socket) -> None:
        try:
            self._admitted.attest(sock)
        except NotAttested as error:
            self._log.warn("control connection refused, uid {uid}", uid=error.uid)
            sock.close()
            return
        if self._current is not None:
            self._current.close()
        connection = SeqpacketConnection(
            self._loop,
            sock,
            lambda data, fds: self._received(connection, data, fds),
            lambda: self._lost(connection),
        )
        self._current = connection
        connection.send(self._ready)
        self._orders.changed()

    def _lost(self, connection: SeqpacketConnection) -> None:
        if self._current is connection:
            self._current = None
            self._orders.changed()

    def _received(self, connection: SeqpacketConnection, data: bytes, fds: list[int]) -> None:
        try:
            order = parse_order(data, len(fds))
        except Misshapen as error:
            self._log.warn("control message refused: {why}", why=str(error))
            for fd in fds:
                os.close(fd)
            return
        match order:
            case Activate():
                self._orders.activate()
            case Connection():
                self._orders.connection(socket.socket(fileno=fds[0]))
            case DialFailed():
                self._orders.dial_failed()
            case Pins(keys=keys):
                self._orders.pins(keys)
            case ReplacePolicy():
                connection.send(serving(self._orders.policy(_read_all(fds[0]))))
            case SelfTest():
                connection.send(tested(run_selftest()))
            case Verifying(seconds=seconds):
                self._orders.verifying(seconds)
            case Stop():
                self._orders.stop()
            case _:
                assert_never(order)


def _read_all(fd: int) -> bytes:
    """A file that hostd has finished; as little as a policy can be is as much as is read."""
    try:
        pieces = []
        while data := os.read(fd, 65536):
            pieces.append(data)
            if len(pieces) > _MOST_PIECES:
                raise ValueError("a policy is not as large as that")
        return b"".join(pieces)
    finally:
        os.close(fd)
