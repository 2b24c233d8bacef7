"""A broker, one connection of a sidecar to it, and servers behind it that keep all they get."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred

from gitmoat.audit.chain import read_lines
from tests.fakes.broker_world import RawSidecar, World
from tests.fakes.fake_upstream import FakeUpstream, Talk
from tests.fakes.held import HeldTime, HeldTurn
from tests.fakes.internet import Internet, Names, Outside
from tests.waiting import PATIENCE
from tests.wire.broker.net.held_broker import LIMITS, TIMEOUTS

_TURNS = 50


class RecordedTalk(Talk):
    """Keeps what came before it is read, framing included."""

    upstream: RecordedUpstream

    def connectionMade(self) -> None:
        super().connectionMade()
        self.upstream.heard.append(b"")
        self._number = len(self.upstream.heard) - 1

    def dataReceived(self, data: bytes) -> None:
        self.upstream.heard[self._number] += data
        super().dataReceived(data)


class RecordedUpstream(FakeUpstream):
    """`heard` has one entry for each connection, in their order."""

    def __init__(self, reactor: Any) -> None:
        self.heard: list[bytes] = []
        super().__init__(reactor)

    def buildProtocol(self, addr: object) -> Talk:
        return RecordedTalk(self)


class RecordedBroker:
    """`open`, speak as its `client`, wait until it has `settled`, look at everything, `close`."""

    client: RawSidecar

    def __init__(self, reactor: Any, folder: Path) -> None:
        self._reactor = reactor
        self.time = HeldTime(reactor)
        self.upstream = RecordedUpstream(reactor)
        self.world = World(HeldTime(reactor), folder, self.upstream.port, TIMEOUTS)
        self.world.broker_reactor = self.time
        self.world.write_config(LIMITS)
        self._records = 0
        self.said: bytes | None = b""

    async def open(self, policy: str, active: bool) -> RecordedBroker:
        self.world.start()
        self.turn = HeldTurn(self.world.broker.context.admission)
        self._disk_works = self.world.opened.journal._sync
        self.internet = await Internet(self.world, Names(), _answering(self)).open()
        sidecar = await self.world.session(policy, active)
        self.client = await self.world.connect_raw(sidecar.key)
        return self

    async def close(self) -> None:
        self.world.opened.journal._sync = self._disk_works
        self.client.hang_up()
        await self.world.stop()
        await self.internet.close()
        await self.upstream.close()
        await self._turns()

    # What happens

    def answer(self, said: bytes | None) -> None:
        """What the servers behind it say from now on; None: they end the connection."""
        self.said = said
        if said is None:
            self.upstream.on_request = lambda talk: talk.abort()
        else:
            self.upstream.answers(said)

    def forget(self) -> None:
        """What was said and recorded up to now."""
        self.client.heard = b""
        self.upstream.heard.clear()
        self._records = len(self._lines())

    def fill_disk(self) -> None:
        def no_space(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self.world.opened.journal._sync = no_space

    async def tell_as_host(self, what: str, **members: object) -> None:
        host = await self.world.host()
        reply = await host.ask("POST", f"/host/{what}", (), json.dumps(members).encode())
        assert reply.status == 200, reply.data

    # Waiting

    async def settled(self) -> None:
        """Until the client has a whole answer or is cut, and nothing of its request runs."""
        await self.until(lambda: self.client.lost or whole(self.client.heard), "an answer")
        if b"\r\nConnection: close\r\n" in self.client.heard.partition(b"\r\n\r\n")[0] + b"\r\n":
            await self.until(lambda: self.client.lost, "the connection's end")
        await self.until(lambda: not self._running, "the request's end")
        await self._turns()
        self.world.broker.summaries.record_use()

    @property
    def _running(self) -> bool:
        return any(len(session.running) for session in self.world.sessions.everyone())

    async def until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            await self._later(0.005)

    async def _turns(self) -> None:
        """As many of the reactor as anything on loopback takes to arrive."""
        for _ in range(_TURNS):
            await self._later(0)

    async def _later(self, seconds: float) -> None:
        waited: Deferred[None] = Deferred()
        self._reactor.callLater(seconds, waited.callback, None)
        await waited

    # What is to be seen

    def audit(self) -> list[bytes]:
        """The lines that were written since `forget`."""
        return self._lines()[self._records :]

    def _lines(self) -> list[bytes]:
        return list(read_lines(self.world.paths.broker_audit))


def _answering(broker: RecordedBroker) -> type[Outside]:
    class Answering(Outside):
        """Says once what is to be said, to the first octets it gets, and ends."""

        def dataReceived(self, data: bytes) -> None:
            first = not self.heard
            super().dataReceived(data)
            if first:
                self.say(broker.said or b"")
                self.end()

    return Answering


def whole(answer: bytes) -> bool:
    """As far as a length or chunks tell."""
    head, _, body = answer.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name.lower() == b"content-length":
            return len(body) >= int(value)
        if name.lower() == b"transfer-encoding":
            return body.endswith(b"0\r\n\r\n")
    return False
