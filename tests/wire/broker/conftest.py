"""A broker with one fake upstream behind it, for each test anew."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import pytest_twisted
from attrs import define
from twisted.internet.defer import Deferred, ensureDeferred

from tests.fakes.broker_world import TIMEOUTS, World
from tests.fakes.fake_upstream import FakeUpstream
from tests.waiting import PATIENCE

_TURNS = 50


@define(eq=False)
class Scene:
    world: World
    upstream: FakeUpstream

    async def pause(self, seconds: float = 0.05) -> None:
        """So long, and then as many turns of the reactor as anything here takes to arrive: on a
        busy machine all of the time may pass within one of them."""
        await self._later(seconds)
        for _ in range(_TURNS):
            await self._later(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits for what must become true; generous, since a busy machine is no failure."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "this did not become true"
            await self._later(0.02)

    async def _later(self, seconds: float) -> None:
        waited: Deferred[None] = Deferred()
        self.world.reactor.callLater(seconds, waited.callback, None)
        await waited


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    yield from opened(tmp_path, TIMEOUTS)


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Scene]:
    """A broker without patience: each of its times passes while a test waits."""
    yield from opened(tmp_path, 'connect = "1s"\nhead = "1s"\nidle = "1s"\noperation = "3s"\n')


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Scene]:
    """A broker that waits a second for what is under way when it is told to end."""
    yield from opened(tmp_path, TIMEOUTS + 'drain = "1s"\n')


def opened(folder: Path, timeouts: str) -> Iterator[Scene]:
    from twisted.internet import reactor

    upstream = FakeUpstream(reactor)
    world = World(reactor, folder, upstream.port, timeouts)
    world.start()
    made = Scene(world, upstream)
    yield made

    async def end() -> None:
        await world.stop()
        await upstream.close()
        await made.pause(0.01)

    pytest_twisted.blockon(ensureDeferred(end()))
