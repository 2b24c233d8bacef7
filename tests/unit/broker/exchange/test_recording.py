"""Who is recorded while a sync is under way waits for the next; nobody goes on without one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import current_thread, main_thread

import pytest
from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.disk_thread import DiskThread
from broker.exchange.recording import Recorder
from gitmoat.audit.events import GitDecision
from gitmoat.audit.journal import Journal, JournalUnavailable, Sizes, open_journal
from tests.fakes.reactor_tests import on_reactor


class Disk:
    """Counts what it is asked to sync; a broken one refuses."""

    def __init__(self) -> None:
        self.syncs = 0
        self.broken = False

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def journal(tmp_path: Path, disk: Disk) -> Iterator[Journal]:
    made = open_journal(tmp_path / "audit.log", "h", lambda: 0.0, sync=disk.sync)
    yield made
    made.close()


def decision(number: int) -> GitDecision:
    return GitDecision(
        sandbox="s", session="t", decision="allow", op="fetch", tier="untrusted", repo="up:a/b",
        rule="r", code=None, req=f"{number:016x}", reason=None,
    )  # fmt: skip


def outcomes(waiting: list[Deferred[None]]) -> list[object]:
    found: list[object] = []
    for each in waiting:
        each.addCallbacks(found.append, lambda failure: found.append(failure.type))
    return found


class ByHand:
    """A thread that does what it was given when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], None], Deferred[None]]] = []

    def __call__(self, work: Callable[[], None]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.work.append((work, done))
        return done

    def go(self) -> None:
        [(work, done)] = self.work
        self.work.clear()
        try:
            work()
        except OSError:
            done.errback()
        else:
            done.callback(None)


@frozen
class SlowDisk:
    """A recorder whose turns and whose thread wait for the test."""

    disk: Disk
    journal: Journal
    clock: Clock = field(factory=Clock)
    apart: ByHand = field(factory=ByHand)

    def recorder(self) -> Recorder:
        return Recorder(self.clock, self.journal, self.apart)


@pytest.fixture
def world(disk: Disk, journal: Journal) -> SlowDisk:
    return SlowDisk(disk, journal)


def test_one_sync_for_all_of_a_turn_and_nobody_before_it(world: SlowDisk) -> None:
    recorder = world.recorder()
    waiting = [recorder.record(decision(number)) for number in range(50)]
    assert (world.journal.head()[0], world.disk.syncs) == (50, 0)
    world.clock.advance(0)
    assert not any(each.called for each in waiting)
    world.apart.go()
    assert outcomes(waiting) == [None] * 50
    assert world.disk.syncs == 1


def test_what_comes_while_a_sync_is_under_way_waits_for_the_next(world: SlowDisk) -> None:
    recorder = world.recorder()
    first = recorder.record(decision(1))
    world.clock.advance(0)
    later = [recorder.record(decision(number)) for number in (2, 3)]
    world.clock.advance(0)
    world.apart.go()
    assert outcomes([first]) == [None]
    assert not any(each.called for each in later)
    world.apart.go()
    assert outcomes(later) == [None] * 2
    assert world.disk.syncs == 2 and not world.apart.work


def test_so_does_what_comes_when_the_others_go_on(world: SlowDisk) -> None:
    recorder = world.recorder()
    later: list[Deferred[None]] = []
    recorder.record(decision(1)).addCallback(lambda _: later.append(recorder.record(decision(2))))
    for _ in range(2):
        world.clock.advance(0)
        world.apart.go()
    assert outcomes(later) == [None]
    assert world.disk.syncs == 2


def test_a_disk_that_does_not_sync_lets_nobody_go_on_until_it_does(world: SlowDisk) -> None:
    recorder = world.recorder()
    world.disk.broken = True
    waiting = [recorder.record(decision(number)) for number in range(3)]
    world.clock.advance(0)
    world.apart.go()
    assert outcomes(waiting) == [JournalUnavailable] * 3
    assert world.journal.problem() is not None
    world.disk.broken = False
    after = recorder.record(decision(4))
    world.clock.advance(0)
    world.apart.go()
    assert outcomes([after]) == [None]
    assert world.journal.problem() is None


def test_a_sync_under_way_outlives_its_file(tmp_path: Path) -> None:
    """A full file is closed, and its number is another's soon."""
    synced: list[tuple[int, int]] = []

    def sync(descriptor: int) -> None:
        about = os.fstat(descriptor)
        synced.append((about.st_dev, about.st_ino))

    path = tmp_path / "audit.log"
    journal = open_journal(path, "h", lambda: 0.0, sync=sync, sizes=Sizes(segment=300))
    journal.record(decision(1), durable=False)
    about, before = path.stat(), len(os.listdir("/proc/self/fd"))
    work = journal.syncing()
    journal.record(decision(2), durable=False)
    assert path.stat().st_ino != about.st_ino
    assert len(os.listdir("/proc/self/fd")) == before + 1
    work()
    assert journal.synced() is None
    assert synced == [(about.st_dev, about.st_ino)]
    assert len(os.listdir("/proc/self/fd")) == before
    journal.close()


@on_reactor
async def test_work_in_a_thread_is_told_in_the_reactors_own() -> None:
    from twisted.internet import reactor

    disk, where = DiskThread(reactor), list[str]()

    def fails() -> None:
        where.append(current_thread().name)
        raise OSError(errno.EIO, "Input/output error")

    await disk(lambda: where.append(current_thread().name))
    with pytest.raises(OSError, match="Input/output"):
        await disk(fails)
    where.append(current_thread().name)
    assert where[0] == where[1] != where[2] == main_thread().name
    disk.close()


# A thread needs memory for its stack.
_SHORT_OF_MEMORY = """
import resource
from broker.disk_thread import DiskThread


class Reactor:
    def callFromThread(self, call, argument):
        call(argument)


disk, done, failed = DiskThread(Reactor()), [], []
pages, most = int(open("/proc/self/statm").read().split()[0]), resource.RLIM_INFINITY
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), most))
disk(lambda: done.append(1)).addErrback(lambda failure: failed.append(failure.type))
resource.setrlimit(resource.RLIMIT_AS, (most, most))
disk(lambda: done.append(2))
disk.close()
print(failed, done)
"""


def test_a_thread_that_was_not_to_be_had_keeps_no_broker_from_ending() -> None:
    command = [sys.executable, "-c", _SHORT_OF_MEMORY]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[<class 'RuntimeError'>] [2]\n", ran.stderr
