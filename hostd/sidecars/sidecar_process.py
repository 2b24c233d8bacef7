"""One sidecar, from its fork to its end, and hostd's link to it.

hostd does not trust it: its messages are READY (a public key), DIAL and the answers to a self-test
and to another policy, 33 bytes each; a sidecar that sends anything else is killed.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.limits.buckets import TokenBucket
from gitmoat.messages.sidecar import (
    DIAL,
    READY,
    SERVING,
    SIZE,
    TESTED,
    Connection,
    DialFailed,
    Order,
    ReplacePolicy,
    SelfTest,
    format_order,
)
from gitmoat.net.transport.dialling import dial
from gitmoat.net.transport.seqpacket import SeqpacketConnection
from hostd.failures import Failed
from hostd.process.handle import Process
from hostd.process.pipes import file_of

_log = Logger()
_DIALS_PER_SECOND = 16.0
_DIAL_BURST = 64
_DIAL_WITHIN = 5.0
_READY_WITHIN = 10.0
_ANSWERS_WITHIN = 5.0


class Dials:
    """Dials the broker for the sidecars of one sandbox, a limited number of times in a second."""

    def __init__(self, reactor: Any, broker: tuple[str, int]) -> None:
        self._reactor = reactor
        self._broker = broker
        self._budget = TokenBucket(_DIALS_PER_SECOND, _DIAL_BURST)

    async def connect(self) -> socket.socket:
        if self._budget.take(self._reactor.seconds()):
            raise Failed("R101", "the sidecar dials too often")
        connected = await dial(self._reactor, *self._broker, _DIAL_WITHIN)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected


class SidecarProcess:
    """`ready` fires with its public key, or fails when it has ended or takes too long."""

    def __init__(self, reactor: Any, sandbox: str, process: Process, dials: Dials) -> None:
        self._reactor = reactor
        self._sandbox = sandbox
        self._dials = dials
        self._link: SeqpacketConnection | None = None
        # Requests without an answer, in order; also those that have timed out.
        self._tests: deque[Deferred[bytes]] = deque()
        self._policies: deque[Deferred[bytes]] = deque()
        self.process = process
        self.ready: Deferred[bytes] = Deferred()
        self.key = b""
        self.session: str | None = None
        self.started: float = reactor.seconds()
        self.serving = False
        # How often it had gone to sleep, counted when it slept after its last answer.
        self.slept: int | None = None

    def connect(self, control_path: str) -> None:
        """A sidecar that cannot be reached is killed, and so ends before it is ready."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        try:
            link.connect(control_path)
        except OSError as problem:
            _log.warn("sidecar not reached: {why}", why=str(problem))
            self.process.kill_session()
        self._link = SeqpacketConnection(self._reactor, link, self._message, self._lost)
        self.ready.addTimeout(_READY_WITHIN, self._reactor)
        self.process.wait().addCallback(lambda _: self._never_ready())

    def tell(self, order: Order, descriptors: Sequence[int] = ()) -> None:
        if self._link is not None:
            self._link.send(format_order(order), descriptors)

    def test(self) -> Deferred[bytes]:
        """The self-test is quick: a sidecar that does not finish it in time is killed."""
        tested = self._asked(self._tests)
        self.tell(SelfTest())
        return tested

    @property
    def is_tested(self) -> bool:
        return bool(self._tests)

    def give_policy(self, allowed: bytes) -> Deferred[bytes]:
        """Fires with the digest of what the sidecar serves then."""
        served = self._asked(self._policies)
        file = file_of(allowed)
        try:
            self.tell(ReplacePolicy(), [file])
        finally:
            os.close(file)
        return served

    def leave(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def end(self) -> None:
        self.process.kill_session()
        self.leave()

    def distrust(self) -> None:
        _log.warn("sidecar of {sandbox} broke its protocol", sandbox=self._sandbox)
        self.process.kill_session()

    def hung(self) -> None:
        if self.process.status is None:
            _log.warn("sidecar of {sandbox} does not answer", sandbox=self._sandbox)
            self.process.kill_session()

    def _asked(self, waiting: deque[Deferred[bytes]]) -> Deferred[bytes]:
        answer: Deferred[bytes] = Deferred()
        answer.addTimeout(_ANSWERS_WITHIN, self._reactor)
        answer.addErrback(self._too_late)
        waiting.append(answer)
        return answer

    def _too_late(self, failure: Failure) -> Failure:
        self.hung()
        return failure

    # Its messages

    def _message(self, data: bytes, descriptors: list[int]) -> None:
        for descriptor in descriptors:  # none is ever expected
            os.close(descriptor)
        kind, payload = data[:1], data[1:]
        if len(data) != SIZE or descriptors:
            self.distrust()
        elif kind == READY and not self.ready.called:
            self.key = payload
            self.ready.callback(payload)
        elif kind == DIAL[:1]:
            done = Deferred.fromCoroutine(self._dials.connect())
            done.addCallbacks(self._hand_over, lambda _: self.tell(DialFailed()))
        elif kind == TESTED and self._tests:
            _answer(self._tests, payload)
        elif kind == SERVING and self._policies:
            _answer(self._policies, payload)
        else:
            self.distrust()

    def _hand_over(self, connected: socket.socket) -> None:
        with connected:
            self.tell(Connection(), [connected.fileno()])

    def _lost(self) -> None:
        """A sidecar without a link is killed; its end is handled where processes are awaited."""
        self.process.kill_session()

    def _never_ready(self) -> None:
        """Fails `ready` at once when the sidecar has ended before."""
        if not self.ready.called:
            self.ready.errback(Failed("R101", "the sidecar ended before it was ready"))


def _answer(waiting: deque[Deferred[bytes]], payload: bytes) -> None:
    """Answers the oldest request, which may have timed out meanwhile."""
    asked = waiting.popleft()
    if not asked.called:
        asked.callback(payload)
