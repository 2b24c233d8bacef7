"""A sidecar that dies again and again, or hangs: nobody waits for ever, nobody takes its place."""

from __future__ import annotations

import os
import signal
import time

import pytest

from hostd.process.proc import wakeups
from tests.faults.world import Machine, ended, git_works, kill_and_wait
from tests.stage.boxes import Box
from tests.stage.command import outcome
from tests.waiting import eventually


def sidecar(world: Machine, box: Box, old: int | None = None) -> int:
    """The pid of a sidecar that is not the old one; while one is replaced there is none."""
    found: list[int] = []

    def look() -> bool:
        pid = world.inspect(box.name)["sidecar"]["pid"]
        found[:] = [pid] if pid not in (None, old) else []
        return bool(found)

    eventually(look, "a sidecar")
    return found[0]


@pytest.mark.long
def test_a_sidecar_killed_ten_times_in_a_row_comes_back_with_growing_delays(world: Machine) -> None:
    with world.guarded_box() as (box, sentinel):
        delays, pid = [], sidecar(world, box)
        for _ in range(10):
            begun = time.monotonic()
            kill_and_wait(pid)
            pid = sidecar(world, box, pid)
            delays.append(time.monotonic() - begun)
        assert delays[-1] > 3  # never more often than that, however long it goes on
        git_works(box)
        sentinel.assert_held()
        assert list(world.sessions().values()).count(box.name) == 1


def test_a_sidecar_that_hangs_is_replaced_and_git_does_not_hang_with_it(world: Machine) -> None:
    with world.guarded_box() as (box, sentinel):
        old = box.sidecar
        os.kill(old, signal.SIGSTOP)
        waiting = box.begin("git", "-C", "/workspace", "ls-remote", "origin")
        eventually(lambda: ended(old), "its end")
        outcome(waiting)  # refused or, from the backlog, served by the next one
        sidecar(world, box, old)
        git_works(box)
        sentinel.assert_held()


def test_a_sidecar_that_has_nothing_to_do_is_never_woken(world: Machine) -> None:
    """While the watchdog looks every second; one that is used meanwhile is the control."""
    with world.box("--agent") as idle, world.box("--agent") as used:
        watched = {name: sidecar(world, box) for name, box in (("idle", idle), ("used", used))}

        def slept_through() -> bool:
            """Not at once: what its start has left is closed some seconds later."""
            before = {name: wakeups(pid) for name, pid in watched.items()}
            for _ in range(3):
                git_works(used)
                time.sleep(2)
            after = {name: wakeups(pid) for name, pid in watched.items()}
            assert after["used"] != before["used"]
            return after["idle"] == before["idle"] is not None

        eventually(slept_through, "the idle one to sleep all the time")


def test_a_sidecar_that_answers_is_left_alone_by_the_watchdog(world: Machine) -> None:
    with world.guarded_box() as (box, _):
        old = box.sidecar
        for _ in range(3):
            results = world.ask("selftest", sandbox=box.name)["results"]
            assert all(result["denied"] for result in results)
            time.sleep(0.7)
        assert box.sidecar == old


def test_a_sandbox_can_be_removed_while_its_sidecar_is_dead_or_hangs(world: Machine) -> None:
    with world.box() as box:
        pid = sidecar(world, box)
        for _ in range(5):
            kill_and_wait(pid)
            pid = sidecar(world, box, pid)
        kill_and_wait(pid)
        world.ask("rm", sandbox=box.name, force=True)
        assert box.name not in world.items()
        assert box.name not in world.sessions().values()
    with world.box() as box:
        os.kill(box.sidecar, signal.SIGSTOP)
        world.ask("rm", sandbox=box.name, force=True)
        assert box.name not in world.items()
        assert box.name not in world.sessions().values()


def test_a_sidecar_that_dies_while_the_broker_is_away_is_replaced_when_it_returns(
    world: Machine,
) -> None:
    with world.guarded_box() as (box, sentinel):
        world.kill("broker")
        old = box.sidecar
        kill_and_wait(old)
        eventually(lambda: world.inspect(box.name)["sidecar"]["pid"] != old, "hostd to notice")
        world.up()
        eventually(lambda: list(world.sessions().values()).count(box.name) == 1, "its session")
        git_works(box)
        sentinel.assert_held()
