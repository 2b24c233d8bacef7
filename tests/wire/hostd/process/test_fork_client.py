"""hostd's side of the process that forks, which is played by hand."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from hostd.failures import Failed, NotStarted
from hostd.process.fork_client import ForkClient
from hostd.process.handle import Process
from hostd.process.proc import start_time
from hostd.process.requests import (
    Alive,
    Answer,
    Answered,
    Asked,
    Done,
    Ping,
    Refused,
    Started,
    Survey,
    Surveyed,
    packed,
    unpack_asked,
)
from tests.waiting import eventually

FOUND = Surveyed(generation=1)
Waiting = Deferred[tuple[Any, list[int]]]


@define
class Link:
    sent: list[Asked] = field(factory=list)

    def send(self, data: bytes, descriptors: object = ()) -> None:
        self.sent.append(unpack_asked(data))

    closed: bool = False

    def close(self) -> None:
        self.closed = True


@define
class Child:
    pid: int = 7
    kills: int = 0
    status: int | None = 0  # None: in an uninterruptible wait it does not end when it is killed

    def kill(self) -> None:
        self.kills += 1

    def poll(self) -> int | None:
        return self.status

    def wait(self, timeout: float) -> None:
        raise subprocess.TimeoutExpired("played", timeout)


class Played(ForkClient):
    """`start` makes no process; what one would say comes by `says`."""

    module = "played"
    refused = 0

    def start(self) -> None:
        if self.refused:
            self.refused -= 1
            raise OSError(errno.EAGAIN, "fork")
        self.link, self.child = Link(), Child()
        self._link = cast(Any, self.link)
        self._child = cast(Any, self.child)
        self.wait_for_first_word()

    def says(self, number: int, answer: Answer, *descriptors: int) -> None:
        self._message(packed(Answered(number=number, answer=answer)), list(descriptors))

    def lives(self, number: int) -> None:
        self.says(number, Alive())

    def ask(self, kind: type[Answer] = Surveyed) -> tuple[int, Waiting]:
        done = self._ask(Survey(), [], kind)
        return self.link.sent[-1].number, done

    def pings(self) -> list[int]:
        return [each.number for each in self.link.sent if isinstance(each.request, Ping)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def forks(clock: Clock) -> Played:
    made = Played(clock)
    made.start()
    made.lives(0)
    return made


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["/bin/sleep", "infinity"])]
    yield made
    for each in made:
        each.kill()
        each.wait()


def _hostd_ticks() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def failure(done: Waiting) -> Failed:
    found: list[Any] = []
    done.addErrback(lambda why: found.append(why.value))
    (problem,) = found
    assert isinstance(problem, Failed)
    return problem


def test_a_late_answer_ends_its_request_and_not_who_was_to_give_it(
    forks: Played, clock: Clock
) -> None:
    _, late = forks.ask()
    clock.advance(13)
    forks.lives(forks.pings()[-1])
    assert not late.called  # the machine may be busy
    clock.advance(40)
    number, other = forks.ask()
    clock.advance(11)
    forks.lives(forks.pings()[-1])
    assert failure(late).code == "R117"
    forks.says(number, FOUND)
    assert other.called
    clock.advance(600)
    assert forks.child.kills == 0 and clock.getDelayedCalls() == []


def test_who_gives_no_sign_of_life_is_ended(forks: Played, clock: Clock) -> None:
    first = forks.child
    forks.ask()
    clock.advance(13)
    assert len(forks.pings()) == 1 and forks.child.kills == 0
    clock.advance(21)
    assert first.kills == 1


def test_the_end_of_who_gives_no_sign_is_not_waited_for(forks: Played, clock: Clock) -> None:
    """What it forked may hold the link open, frozen, for as long as it likes."""
    link, (_, done) = forks.link, forks.ask()
    forks.child.status = None
    clock.advance(13)
    clock.advance(21)
    assert link.closed and not done.called
    forks.lives(0)
    number, another = forks.ask()
    forks.says(number, FOUND)
    assert another.called
    clock.pump([1] * 6)
    assert failure(done).code == "R101"
    assert clock.getDelayedCalls() == []


def test_who_waited_hears_of_it_when_it_has_ended(forks: Played, clock: Clock) -> None:
    """Only then are the children that it has not told of ours to end."""
    child, (_, done) = forks.child, forks.ask()
    child.status = None
    forks._lost()
    clock.advance(1)
    assert not done.called
    child.status = -9
    clock.advance(1)
    assert failure(done).code == "R101"


def test_who_cannot_be_started_is_started_later_and_nobody_waits_for_that(
    forks: Played, clock: Clock
) -> None:
    _, done = forks.ask()
    forks.refused = 2
    forks._lost()
    assert failure(done).code == "R101"
    with pytest.raises(Failed) as refused:
        forks.ask()
    assert refused.value.code == "R101"
    clock.advance(1)
    clock.advance(1)
    forks.lives(0)
    number, another = forks.ask()
    forks.says(number, FOUND)
    assert another.called


@pytest.mark.parametrize("known", [True, False])
def test_what_was_forked_and_not_told_of_ends_with_its_request(
    forks: Played, sleepers: list[subprocess.Popen[bytes]], known: bool
) -> None:
    earlier, *_ = sleepers
    eventually(lambda: _hostd_ticks() > (start_time(earlier.pid) or 0), "a tick")
    _, done = forks.ask()
    sleepers.append(subprocess.Popen(["/bin/sleep", "infinity"]))
    begun = sleepers[-1]
    if known:
        forks._processes[begun.pid] = Process(begun.pid, os.pidfd_open(begun.pid))
        forks._adopt = lambda processes: None  # type: ignore[method-assign]
    forks._lost()
    assert failure(done).code == "R101"
    if not known:
        assert begun.wait(20) == -signal.SIGKILL
    assert earlier.poll() is None and begun.poll() == (None if known else -signal.SIGKILL)


def test_a_descriptor_that_is_closed_costs_its_own_request_alone(clock: Clock) -> None:
    """A sandbox that ended meanwhile has closed its namespace."""
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    forks = Played(clock)
    forks.start()
    for closed in (-1, reader):
        with pytest.raises(Failed) as refused:
            forks._ask(Survey(), [closed], Surveyed)
        assert refused.value.code == "R106"
    assert forks.link.sent == []


def test_stop_does_not_wait_for_ever(forks: Played) -> None:
    forks.stop()
    assert forks.child.kills == 1


def test_what_was_asked_behind_a_ping_is_asked_about_again(forks: Played, clock: Clock) -> None:
    _, first = forks.ask()
    clock.advance(12)
    forks.lives(forks.pings()[0])
    clock.advance(50)
    _, second = forks.ask()
    clock.advance(12)  # which is asked about with the ping that is under way
    forks.lives(forks.pings()[1])
    assert failure(first).code == "R117" and not second.called
    clock.advance(50)
    forks.lives(forks.pings()[-1])
    assert failure(second).code == "R117"


def test_time_is_counted_from_when_it_has_started(clock: Clock) -> None:
    forks = Played(clock)
    forks.start()
    number, done = forks.ask()
    clock.advance(40)
    assert forks.pings() == [] and not done.called
    forks.lives(0)
    clock.advance(11)
    forks.says(number, FOUND)
    assert (done.called, forks.child.kills) == (True, 0)


def test_who_never_starts_is_ended(clock: Clock) -> None:
    forks = Played(clock)
    forks.start()
    first = forks.child
    clock.advance(61)
    assert first.kills == 1


def test_a_process_that_begins_when_nobody_waits_any_more_is_ended(
    forks: Played, clock: Clock
) -> None:
    number, late = forks.ask()
    clock.advance(13)
    forks.lives(forks.pings()[0])
    clock.advance(50)
    forks.lives(forks.pings()[1])
    failure(late)
    with subprocess.Popen(["/bin/sleep", "infinity"]) as sleeper:
        pidfd = os.pidfd_open(sleeper.pid)
        forks.says(number, Started(pid=sleeper.pid), pidfd)
        try:
            assert sleeper.wait(20) == -signal.SIGKILL
        finally:
            sleeper.kill()
    with pytest.raises(OSError):
        os.fstat(pidfd)


def test_a_refusal_with_a_code_keeps_it(forks: Played) -> None:
    number, done = forks.ask()
    forks.says(number, Refused(why="too many", code="R117"))
    problem = failure(done)
    assert (problem.code, problem.what) == ("R117", "too many")


@pytest.mark.parametrize("number", [13, 0])
def test_a_refusal_without_a_code_has_the_errors_number(forks: Played, number: int) -> None:
    request, done = forks.ask()
    forks.says(request, Refused(why="PermissionError: no", errno=number))
    problem = failure(done)
    assert isinstance(problem, NotStarted)
    assert (problem.code, problem.why, problem.errno) == ("R101", "PermissionError: no", number)


def test_an_answer_of_another_kind_is_none(forks: Played) -> None:
    number, done = forks.ask()
    forks.says(number, Done())
    assert failure(done).code == "R101"
