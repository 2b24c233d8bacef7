"""The carrier of pack streams, between real pipes on the real reactor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from hostd.gate.pack_relay import End, Relay, Relayed, Stalls
from tests.fakes.reactor_tests import on_reactor

MIB = 1 << 20
LONG = 30.0


def the_reactor() -> Any:
    from twisted.internet import reactor

    return reactor


@define(eq=False)
class Ends:
    """What a sender and a receiver would hold; the relay owns the other two descriptors."""

    sender: int
    receiver: int
    source: int
    sink: int
    open: set[int] = field(factory=set)

    def relay(
        self, limit: int | None = None, *, sender: float = LONG, receiver: float = LONG
    ) -> Relay:
        return Relay(the_reactor(), self.source, self.sink, limit, Stalls(sender, receiver))

    def close(self, descriptor: int) -> None:
        if descriptor in self.open:
            self.open.discard(descriptor)
            os.close(descriptor)

    def write(self, data: bytes, end: bool = True) -> Deferred[None]:
        return deferToThread(self._write, data, end)

    def _write(self, data: bytes, end: bool) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.sender, view) :]
        except BrokenPipeError:
            pass
        if end:
            self.close(self.sender)

    def read(self) -> Deferred[bytes]:
        return deferToThread(lambda: b"".join(iter(lambda: os.read(self.receiver, MIB), b"")))


@pytest.fixture
def ends() -> Iterator[Ends]:
    source, sender = os.pipe2(os.O_CLOEXEC)
    receiver, sink = os.pipe2(os.O_CLOEXEC)
    made = Ends(sender, receiver, source, sink, {sender, receiver})
    yield made
    for descriptor in list(made.open):
        os.close(descriptor)


@pytest.mark.parametrize("octets", [0, 1, 4096, 65536, 65537, 5 * MIB + 1])
@on_reactor
async def test_every_octet_arrives_and_the_end_too(ends: Ends, octets: int) -> None:
    data = os.urandom(octets)
    relay = ends.relay()
    reading = ends.read()
    await ends.write(data)
    assert await relay.done == Relayed(octets, End.COMPLETE)
    assert await reading == data


@on_reactor
async def test_a_slow_receiver_holds_the_sender_back(ends: Ends) -> None:
    relay = ends.relay()
    written = threading.Event()
    writing = ends.write(bytes(8 * MIB))
    writing.addCallback(lambda _: written.set())
    await pause(0.3)
    assert not written.is_set(), "eight mebibytes do not fit into two pipes"
    data = await ends.read()
    assert len(data) == 8 * MIB
    assert await relay.done == Relayed(8 * MIB, End.COMPLETE)
    await writing


@on_reactor
async def test_more_than_the_limit_is_cut_off(ends: Ends) -> None:
    relay = ends.relay(limit=3 * MIB)
    reading = ends.read()
    writing = ends.write(bytes(5 * MIB))
    relayed = await relay.done
    assert relayed.end is End.TOO_LARGE
    assert relayed.octets == 3 * MIB + 1
    assert len(await reading) == 3 * MIB + 1
    await writing


@on_reactor
async def test_exactly_the_limit_is_not_too_much(ends: Ends) -> None:
    relay = ends.relay(limit=3 * MIB)
    reading = ends.read()
    await ends.write(bytes(3 * MIB))
    assert await relay.done == Relayed(3 * MIB, End.COMPLETE)
    await reading


@pytest.mark.parametrize("octets", [0, 10])
@on_reactor
async def test_a_standstill_is_cut_off(ends: Ends, octets: int) -> None:
    relay = ends.relay(sender=0.2)
    await ends.write(bytes(octets), end=False)
    assert await relay.done == Relayed(octets, End.STALLED)


@on_reactor
async def test_a_receiver_that_reads_nothing_is_a_standstill(ends: Ends) -> None:
    relay = ends.relay(receiver=0.2)
    writing = ends.write(bytes(8 * MIB))
    assert (await relay.done).end is End.STALLED
    ends.close(ends.receiver)
    await writing


@on_reactor
async def test_each_end_has_its_own_patience(ends: Ends) -> None:
    """A sender that thinks longer than a receiver may stand still is waited for."""
    relay = ends.relay(receiver=0.1)
    reading = ends.read()
    for _ in range(3):
        await ends.write(bytes(2 * MIB), end=False)
        await pause(0.3)
    ends.close(ends.sender)
    assert await relay.done == Relayed(6 * MIB, End.COMPLETE)
    await reading


@on_reactor
async def test_a_receiver_that_leaves_ends_it(ends: Ends) -> None:
    relay = ends.relay()
    ends.close(ends.receiver)
    await ends.write(bytes(4 * MIB))
    assert (await relay.done).end is End.UNWANTED


@on_reactor
async def test_a_receiver_that_leaves_while_it_is_waited_for_ends_it(ends: Ends) -> None:
    relay = ends.relay()
    writing = ends.write(bytes(8 * MIB))
    await pause(0.2)
    ends.close(ends.receiver)
    assert (await relay.done).end is End.UNWANTED
    await writing


@on_reactor
async def test_the_end_of_the_sender_is_the_end_though_its_pipe_stays_open(ends: Ends) -> None:
    """What it wrote is carried; a stranger who holds its pipe is not waited for, nor heard."""
    relay = ends.relay()
    data = os.urandom(4 * MIB)
    reading = ends.read()
    await ends.write(data, end=False)
    relay.sender_ended()
    assert await relay.done == Relayed(len(data), End.COMPLETE)
    assert await reading == data


@on_reactor
async def test_the_end_of_a_silent_sender_is_an_empty_stream(ends: Ends) -> None:
    relay = ends.relay()
    relay.sender_ended()
    assert await relay.done == Relayed(0, End.COMPLETE)


@on_reactor
async def test_what_is_reported_twice_counts_once(ends: Ends) -> None:
    relay = ends.relay()
    relay.receiver_ended()
    relay.receiver_ended()
    relay.sender_ended()
    assert await relay.done == Relayed(0, End.UNWANTED)


@pytest.mark.parametrize("noticed", ["by its end", "by its pipe"])
@on_reactor
async def test_a_receiver_that_has_all_it_wants_may_leave_first(ends: Ends, noticed: str) -> None:
    """Which of the two hostd hears of first is chance; only its status says that it was content."""
    relay = ends.relay()
    await ends.write(b"everything", end=False)
    assert await deferToThread(os.read, ends.receiver, 100) == b"everything"
    if noticed == "by its end":
        relay.receiver_ended()
    else:
        ends.close(ends.receiver)
        await ends.write(b"more")
    relayed = await relay.done
    assert relayed.judged(satisfied=True) == Relayed(10, End.COMPLETE)
    assert relayed.judged(satisfied=False) == Relayed(10, End.UNWANTED)


@pytest.mark.parametrize("end", [End.TOO_LARGE, End.STALLED, End.COMPLETE])
def test_a_content_receiver_excuses_nothing_else(end: End) -> None:
    assert Relayed(10, end).judged(satisfied=True) == Relayed(10, end)


def pause(seconds: float) -> Deferred[None]:
    done: Deferred[None] = Deferred()
    fire: Callable[[None], None] = done.callback
    the_reactor().callLater(seconds, fire, None)
    return done
