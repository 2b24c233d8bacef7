"""A broker with one fake upstream behind it, for each test anew."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import pytest_twisted
from attrs import define
from twisted.internet.defer import Deferred, ensureDeferred

from tests.fakes.broker_world import TIMEOUTS, World
from tests.fakes.fake_upstream import FakeUpstream


@define(eq=False)
class Scene:
    world: World
    upstream: FakeUpstream

    async def pause(self, seconds: float = 0.05) -> None:
        waited: Deferred[None] = Deferred()
        self.world.reactor.callLater(seconds, waited.callback, None)
        await waited

    async def until(self, holds: Callable[[], object], seconds: float = 20.0) -> None:
        """Waits for what must become true; generous, since a busy machine is no failure."""
        for _ in range(int(seconds / 0.02)):
            if holds():
                return
            await self.pause(0.02)
        raise AssertionError("this did not become true")


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
