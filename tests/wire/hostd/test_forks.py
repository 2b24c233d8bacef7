"""hostd's side of the process that forks, which is played by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from hostd.failures import Failed
from hostd.forks import Answer, Forks


@define
class Link:
    sent: list[dict[str, Any]] = field(factory=list)

    def send(self, data: bytes, descriptors: object = ()) -> None:
        self.sent.append(json.loads(data))

    def close(self) -> None:
        pass


@define
class Child:
    pid: int = 7
    kills: int = 0

    def kill(self) -> None:
        self.kills += 1


class Played(Forks):
    """`start` makes no process; what one would say comes by `says`."""

    module = "played"

    def start(self) -> None:
        self.link, self.child = Link(), Child()
        self._link = cast(Any, self.link)
        self._child = cast(Any, self.child)
        self.begin_life()

    def says(self, *descriptors: int, **message: object) -> None:
        self._message(json.dumps(message).encode(), list(descriptors))

    def ask(self) -> tuple[int, Deferred[Answer]]:
        done = self._ask({"op": "survey"}, [])
        return self.link.sent[-1]["id"], done

    def pings(self) -> list[int]:
        return [message["id"] for message in self.link.sent if message["op"] == "ping"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def forks(clock: Clock) -> Played:
    made = Played(clock)
    made.start()
    made.says(alive=0)
    return made


def failure(done: Deferred[Answer]) -> Failed:
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
    forks.says(alive=forks.pings()[-1])
    assert not late.called  # the machine may be busy
    clock.advance(40)
    number, other = forks.ask()
    clock.advance(11)
    forks.says(alive=forks.pings()[-1])
    assert failure(late).code == "R117"
    forks.says(id=number, found={})
    assert other.called
    clock.advance(600)
    assert forks.child.kills == 0 and clock.getDelayedCalls() == []


def test_who_gives_no_sign_of_life_is_ended(forks: Played, clock: Clock) -> None:
    forks.ask()
    clock.advance(13)
    assert len(forks.pings()) == 1 and forks.child.kills == 0
    clock.advance(21)
    assert forks.child.kills == 1


def test_what_was_asked_behind_a_ping_is_asked_about_again(forks: Played, clock: Clock) -> None:
    _, first = forks.ask()
    clock.advance(12)
    forks.says(alive=forks.pings()[0])
    clock.advance(50)
    _, second = forks.ask()
    clock.advance(12)  # which is asked about with the ping that is under way
    forks.says(alive=forks.pings()[1])
    assert failure(first).code == "R117" and not second.called
    clock.advance(50)
    forks.says(alive=forks.pings()[-1])
    assert failure(second).code == "R117"


def test_time_is_counted_from_when_it_has_started(clock: Clock) -> None:
    forks = Played(clock)
    forks.start()
    number, done = forks.ask()
    clock.advance(40)
    assert forks.pings() == [] and not done.called
    forks.says(alive=0)
    clock.advance(11)
    forks.says(id=number, found={})
    assert (done.called, forks.child.kills) == (True, 0)


def test_who_never_starts_is_ended(clock: Clock) -> None:
    forks = Played(clock)
    forks.start()
    clock.advance(61)
    assert forks.child.kills == 1


def test_a_process_that_begins_when_nobody_waits_any_more_is_ended(
    forks: Played, clock: Clock
) -> None:
    number, late = forks.ask()
    clock.advance(13)
    forks.says(alive=forks.pings()[0])
    clock.advance(50)
    forks.says(alive=forks.pings()[1])
    failure(late)
    with subprocess.Popen(["/bin/sleep", "infinity"]) as sleeper:
        pidfd = os.pidfd_open(sleeper.pid)
        forks.says(pidfd, id=number, pid=sleeper.pid)
        try:
            assert sleeper.wait(20) == -signal.SIGKILL
        finally:
            sleeper.kill()
    with pytest.raises(OSError):
        os.fstat(pidfd)


def test_a_refusal_with_a_code_keeps_it(forks: Played) -> None:
    number, done = forks.ask()
    forks.says(id=number, error="too many", code="R117")
    problem = failure(done)
    assert (problem.code, problem.what) == ("R117", "too many")
