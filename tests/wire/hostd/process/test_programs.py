"""A program of the host's own that does not end, with the launcher played by hand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from hostd.config import GateTimes
from hostd.failures import Failed
from hostd.gate.git_processes import GateProcesses
from hostd.process.handle import Process
from hostd.process.programs import Finished, Programs
from hostd.process.requests import Command


class Reactor(Clock):
    """A clock; what pipes say is read by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)


@define
class Launcher:
    process: Process
    kept: list[int] = field(factory=list)

    async def ask_child(self, child: Command, stdio: list[int]) -> Process:
        """As a child that holds its pipes open."""
        self.kept = [os.dup(descriptor) for descriptor in stdio]
        return self.process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Leads its own group, as what the launcher starts does."""
    with subprocess.Popen(["/bin/sleep", "infinity"], start_new_session=True) as process:
        yield process
        process.kill()


def begin(sleeper: subprocess.Popen[bytes]) -> tuple[Reactor, Launcher, list[Any]]:
    reactor = Reactor()
    launcher = Launcher(Process(sleeper.pid, os.pidfd_open(sleeper.pid)))
    ended: list[Any] = []
    command = Command(argv=("x",), environment={})
    work = Programs(reactor, cast(Any, launcher)).run(command, timeout=20)
    Deferred.fromCoroutine(work).addBoth(ended.append)
    return reactor, launcher, ended


def test_a_program_that_is_killed_and_does_not_go_is_not_waited_for(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """As in a group that is frozen: nobody ever hears of its end."""
    reactor, launcher, ended = begin(sleeper)
    reactor.advance(21)
    assert sleeper.wait() == -9 and ended == []
    reactor.advance(6)
    assert isinstance(ended[0].value, Failed) and ended[0].value.code == "R117"
    assert reactor.readers == [] and reactor.getDelayedCalls() == []
    for descriptor in launcher.kept:
        os.close(descriptor)


def test_who_still_holds_its_pipes_when_it_has_ended_is_not_waited_for(
    sleeper: subprocess.Popen[bytes],
) -> None:
    reactor, launcher, ended = begin(sleeper)
    launcher.process.ended(3)
    assert ended == []
    reactor.advance(6)
    (finished,) = ended
    assert isinstance(finished, Finished) and finished.status == 3
    for descriptor in launcher.kept:
        os.close(descriptor)


def test_the_git_gate_does_not_wait_for_it_either(sleeper: subprocess.Popen[bytes]) -> None:
    reactor = Reactor()
    launcher = Launcher(Process(sleeper.pid, os.pidfd_open(sleeper.pid)))
    gate = GateProcesses(reactor, Programs(reactor, cast(Any, launcher)), GateTimes(answer=20))
    ended: list[Any] = []
    work = gate.ask_untrusted(Command(argv=("git", "status"), environment={}))
    Deferred.fromCoroutine(work).addBoth(ended.append)
    reactor.advance(21)
    assert sleeper.wait() == -9 and ended == []
    reactor.advance(6)
    assert isinstance(ended[0].value, Failed) and ended[0].value.code == "R117"
    assert reactor.readers == [] and reactor.getDelayedCalls() == []
    for descriptor in launcher.kept:
        os.close(descriptor)
