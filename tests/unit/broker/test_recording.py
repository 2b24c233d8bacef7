"""Who is recorded in the same turn waits for one sync; nobody goes on before it, or without it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from audit.events import GitDecision
from audit.journal import Journal, JournalUnavailable, open_journal
from broker.recording import Recorder


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


def test_one_sync_for_all_of_a_turn_and_nobody_before_it(journal: Journal, disk: Disk) -> None:
    clock = Clock()
    recorder = Recorder(clock, journal)
    waiting = [recorder.record(decision(number)) for number in range(50)]
    assert (journal.head()[0], disk.syncs) == (50, 0)
    assert not any(each.called for each in waiting)
    clock.advance(0)
    assert outcomes(waiting) == [None] * 50
    assert disk.syncs == 1


def test_what_comes_while_the_others_go_on_waits_for_a_sync_of_its_own(
    journal: Journal, disk: Disk
) -> None:
    clock = Clock()
    recorder = Recorder(clock, journal)
    later: list[Deferred[None]] = []
    recorder.record(decision(1)).addCallback(lambda _: later.append(recorder.record(decision(2))))
    clock.advance(0)
    clock.advance(0)
    assert outcomes(later) == [None]
    assert disk.syncs == 2


def test_a_disk_that_does_not_sync_lets_nobody_go_on_until_it_does(
    journal: Journal, disk: Disk
) -> None:
    clock = Clock()
    recorder = Recorder(clock, journal)
    disk.broken = True
    waiting = [recorder.record(decision(number)) for number in range(3)]
    clock.advance(0)
    assert outcomes(waiting) == [JournalUnavailable] * 3
    assert not journal.works()
    disk.broken = False
    after = recorder.record(decision(4))
    clock.advance(0)
    assert outcomes([after]) == [None]
    assert journal.works()
