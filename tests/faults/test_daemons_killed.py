"""kill -9 of the launcher, the zygote and the broker: idle, and with something under way."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.fakes.long_cases import also_long
from tests.faults.inventory import assert_settles, at_rest
from tests.faults.transfers import LARGE, PUSHED, begin_clone, begin_push, prepare
from tests.faults.world import Machine, git_works, kill_and_wait, new_name
from tests.stage.boxes import HOME
from tests.stage.command import outcome
from tests.stage.repositories import create_repository, objects, refs
from tests.waiting import PATIENCE, eventually

FORKERS = ("launcher", "zygote")


@pytest.mark.parametrize("forker", FORKERS)
def test_an_idle_one_that_is_killed_is_replaced_and_nobody_notices(
    world: Machine, forker: str
) -> None:
    with world.guarded_box() as (box, sentinel):
        before = at_rest(world)
        about = world.inspect(box.name)
        for _ in range(3):
            old = world.kill(forker)
            eventually(lambda: world.status("hostd")[forker] not in (0, None, old), "another")  # noqa: B023
        assert world.inspect(box.name) == about
        assert_settles(world, before)
        git_works(box)
        kill_and_wait(box.sidecar)  # the next one comes from the new ones
        git_works(box)
        sentinel.assert_held()


@pytest.mark.parametrize("forker", FORKERS)
@pytest.mark.parametrize(
    "step", also_long("rooms", "sidecar", long=("directories", "rules", "workspace"))
)
def test_one_killed_under_a_creation_leaves_a_whole_sandbox_or_none(
    world: Machine, step: str, forker: str
) -> None:
    before = at_rest(world)
    name, victim = new_name(), world.pid(forker)
    with world.stopped_at(step) as stop:
        run = world.begin_run("-d", "--", "sleep", "infinity", name=name)
        stop.wait()
        # Asked and not answered: it stands still while hostd goes on, and then dies.
        os.kill(victim, signal.SIGSTOP)
    kill_and_wait(victim)
    ran = outcome(run)
    if ran.code == 0:
        assert world.inspect(name)["state"] == "running"
        world.ask("rm", sandbox=name, force=True)
    else:
        assert "[R1" in ran.err, ran.err
        assert name not in world.items()
    assert_settles(world, before)


def test_a_command_that_is_too_long_is_refused_and_harms_nobody(world: Machine) -> None:
    with world.box(repo=None) as box:
        launcher = world.pid("launcher")
        ran = box.run("true", *["x" * 100_000] * 3)
        assert ran.code == 126 and "[C105]" in ran.err, ran.err
        box.run("true", *["x" * 50_000] * 3).expect_success("a long command")
        assert world.pid("launcher") == launcher


@pytest.mark.long
def test_a_launcher_that_hangs_is_replaced(world: Machine) -> None:
    with world.box(repo=None) as box:
        old = world.pid("launcher")
        os.kill(old, signal.SIGSTOP)
        assert "[R101]" in box.run("true").err  # within its minute
        eventually(lambda: world.status("hostd")["launcher"] != old, "another")
        box.run("true").expect_success("the next command")


@pytest.mark.long
def test_a_launcher_killed_while_the_watchdog_looks_stops_no_sandbox(world: Machine) -> None:
    with world.guarded_box() as (box, sentinel):
        for _ in range(25):
            kill_and_wait(world.pid("launcher"))
            time.sleep(0.11)
        time.sleep(2.5)
        assert world.items()[box.name]["state"] == "running"
        git_works(box)
        sentinel.assert_held()


def test_an_idle_broker_that_is_killed_keeps_its_sessions(world: Machine) -> None:
    with world.guarded_box() as (box, sentinel):
        sessions, about = world.sessions(), world.inspect(box.name)
        world.kill("broker")
        assert box.run("git", "-C", "/workspace", "ls-remote", "origin").code != 0
        world.up()
        assert world.sessions() == sessions
        git_works(box)
        assert world.inspect(box.name) == about
        sentinel.assert_held()


def test_a_broker_killed_in_a_clone_ends_it_with_an_error_and_the_next_works(
    world: Machine,
) -> None:
    prepare(world.stage)
    with world.box("--policy", "play", repo=None) as box:
        clone = begin_clone(box)
        world.kill("broker")
        ran = outcome(clone)
        assert ran.code in (1, 128) and "fatal: " in ran.err
        world.up()
        box.run("git", "ls-remote", world.stage.url(LARGE)).expect_success("the next operation")
        assert box.run("ls", f"{HOME}/big").code != 0  # git removes what it has not finished


def test_a_broker_killed_in_a_push_leaves_nothing_half_applied(world: Machine) -> None:
    stage, branch = world.stage, f"agent/{new_name()}"
    create_repository(stage.upstream.repositories, PUSHED, {"a.txt": b"a\n"})
    before = refs(stage, PUSHED), objects(stage, PUSHED)
    with world.box("--agent", "--push", "agent/**", repo=PUSHED) as box:
        push = begin_push(box, branch)
        world.kill("broker")
        assert outcome(push).code != 0
        eventually(
            lambda: (refs(stage, PUSHED), objects(stage, PUSHED)) == before,
            "the upstream to drop it",
        )
        world.up()
        words = ("push", "-q", stage.url(PUSHED), f"HEAD:refs/heads/{branch}")
        again = box.run("git", "-C", "/workspace", *words)
        again.expect_success("the push again")
        assert f"refs/heads/{branch}" in refs(stage, PUSHED)


@pytest.mark.long
def test_a_broker_that_hangs_hangs_nobody_else(world: Machine) -> None:
    """Bounded: what does not need it works, what does says so in time."""
    with world.box("--agent") as box:
        broker = world.pid("broker")
        os.kill(broker, signal.SIGSTOP)
        try:
            assert box.run("true").code == 0
            assert world.stage.hostctl("run", "--rm", "--", "true", timeout=PATIENCE).code != 0
            world.ask("rm", sandbox=box.name, force=True)
        finally:
            os.kill(broker, signal.SIGCONT)
        eventually(lambda: box.name not in world.sessions().values(), "the end of its session")


def test_a_sandbox_removed_while_the_broker_is_away_loses_its_session_when_it_returns(
    world: Machine,
) -> None:
    with world.box() as box:
        world.kill("broker")
        world.ask("rm", sandbox=box.name, force=True)
        world.up()
        eventually(lambda: box.name not in world.sessions().values(), "the end of its session")
