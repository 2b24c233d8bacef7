"""kill -9 of hostd at every step: what was half made is gone, what ran runs on."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from hostctl.failure import Failure
from tests.fakes.long_cases import also_long
from tests.faults.inventory import assert_settles, at_rest
from tests.faults.sentinel import Sentinel
from tests.faults.world import Machine, ended, git_works, kill_and_wait, new_name
from tests.stage.boxes import Box
from tests.stage.command import outcome
from tests.waiting import eventually

CREATION = also_long("rooms", "listeners", "workspace", long=("directories", "rules", "sidecar"))
# Writes of a start's record, with what the next hostd makes of it.
STARTS = also_long(
    ("ending", 1, "stopped"),
    ("ending", 4, "stopped"),
    ("served", 1, "running"),
    long=[pytest.param("ending", count, "stopped") for count in (2, 3, 5, 6)],
)
SEED = 20261


@pytest.fixture(scope="module")
def guarded(world: Machine) -> Iterator[tuple[Box, Sentinel]]:
    """One sandbox that lives through all of it."""
    with world.guarded_box() as (box, sentinel):
        yield box, sentinel
        sentinel.assert_held()
        git_works(box)


@pytest.mark.parametrize("step", CREATION)
def test_a_sandbox_that_was_half_made_is_gone_and_the_others_go_on(
    world: Machine, guarded: tuple[Box, Sentinel], step: str
) -> None:
    box, sentinel = guarded
    about = world.inspect(box.name)
    world.kill("hostd")  # adopted already, so that descriptors can be compared
    world.up()
    before = at_rest(world)
    hostd = world.pid("hostd")
    with world.stopped_at(step) as stop:
        run = world.begin_run("-d", "--", "sleep", "infinity")
        identifier = stop.wait()
        kill_and_wait(hostd)
    outcome(run)
    assert world.step(identifier) == step
    world.up()
    assert_settles(world, before)
    after = world.inspect(box.name)
    kept = ("sandbox", "pid", "netns", "uids")
    assert [after[key] for key in kept] == [about[key] for key in kept]
    sentinel.assert_held()


def test_a_served_sandbox_is_adopted_with_all_that_runs_in_it(
    world: Machine, guarded: tuple[Box, Sentinel]
) -> None:
    box, sentinel = guarded
    before = world.inspect(box.name)
    command = box.begin("sh", "-c", "echo up; sleep infinity")
    assert command.stdout is not None and command.stdout.readline() == b"up\n"
    rounds = sentinel.rounds()
    world.kill("hostd")
    assert outcome(command).code != 0  # its hostctl cannot wait for the end any more
    sentinel.assert_held()  # nobody needs hostd for that
    world.up()
    after = world.inspect(box.name)
    assert (after["pid"], after["netns"]) == (before["pid"], before["netns"])
    assert after["sidecar"]["pid"] == before["sidecar"]["pid"]
    assert after["session"]["id"] == before["session"]["id"]
    assert world.items()[box.name]["state"] == "running"
    git_works(box)
    assert sentinel.rounds() > rounds
    with pytest.raises(Failure, match="a command runs"):
        world.ask("rm", sandbox=box.name, force=False)


def test_a_terminated_hostd_leaves_its_sandboxes_to_the_next(
    world: Machine, guarded: tuple[Box, Sentinel]
) -> None:
    box, sentinel = guarded
    before = world.inspect(box.name)
    world.kill("hostd", signal.SIGTERM)
    sentinel.assert_held()
    world.up()
    assert world.inspect(box.name)["sidecar"]["pid"] == before["sidecar"]["pid"]
    git_works(box)


def test_an_adopted_sandbox_gets_a_new_sidecar_with_fresh_listeners(
    world: Machine, guarded: tuple[Box, Sentinel]
) -> None:
    box, sentinel = guarded
    world.kill("hostd")
    world.up()
    old = box.sidecar
    kill_and_wait(old)
    eventually(lambda: world.inspect(box.name)["sidecar"]["pid"] not in (None, old), "another")
    git_works(box)
    kill_and_wait(box.sidecar)  # now hostd holds the listeners itself again
    git_works(box)
    sentinel.assert_held()
    assert list(world.sessions().values()).count(box.name) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_sidecar_that_died_or_hangs_when_hostd_starts_is_replaced(
    world: Machine, guarded: tuple[Box, Sentinel], number: signal.Signals
) -> None:
    box, sentinel = guarded
    old = box.sidecar
    world.kill("hostd")
    os.kill(old, number)
    sentinel.assert_held()
    world.up()
    eventually(lambda: ended(old), "the end of the old one")
    git_works(box)
    sentinel.assert_held()
    assert list(world.sessions().values()).count(box.name) == 1


@pytest.mark.parametrize("moment", ["noted", "processes ended"])
def test_a_sandbox_that_was_half_removed_is_gone(world: Machine, moment: str) -> None:
    world.kill("hostd")  # both times a hostd that has just started
    world.up()
    before = at_rest(world)
    with world.box(repo=None) as box:
        hostd, room = world.pid("hostd"), int(world.inspect(box.name)["pid"])
        with world.stopped_at("removing") as stop:
            remove = world.stage.begin("rm", "--force", box.name)
            stop.wait()
            if moment == "noted":
                kill_and_wait(hostd)
        if moment != "noted":  # from here on any moment is right
            eventually(lambda: ended(room), "the end of its processes")
            kill_and_wait(hostd)
        outcome(remove)
        world.up()
        assert box.name not in world.items()
    world.kill("hostd")
    world.up()
    assert_settles(world, before)


@pytest.mark.parametrize("step", ["ending", "stopped"])
def test_a_sandbox_that_was_half_stopped_is_stopped_and_keeps_its_files(
    world: Machine, step: str
) -> None:
    with world.box("--agent") as box:
        identifier = str(world.inspect(box.name)["sandbox"])
        box.sh("echo kept > /workspace/kept").expect_success("writing")
        hostd = world.pid("hostd")
        with world.stopped_at(step) as stop:
            stopping = world.stage.begin("stop", box.name)
            stop.wait()
            kill_and_wait(hostd)
        assert outcome(stopping).code != 0
        world.up()
        assert world.items()[box.name]["state"] == "stopped"
        assert (world.state(identifier) / "workspace" / "kept").read_text() == "kept\n"
        assert box.name not in world.sessions().values()
        world.ask("start", sandbox=box.name)
        assert box.sh("cat /workspace/kept").expect_success("reading") == "kept"
        git_works(box)


@pytest.mark.parametrize(("step", "count", "state"), STARTS)
def test_a_stopped_sandbox_that_was_being_started_is_stopped_again_or_runs(
    world: Machine, step: str, count: int, state: str
) -> None:
    with world.box() as box:
        identifier = str(world.inspect(box.name)["sandbox"])
        world.ask("stop", sandbox=box.name)
        hostd = world.pid("hostd")
        with world.stopped_at(step, count) as stop:
            starting = world.stage.begin("start", box.name)
            assert stop.wait() == identifier
            kill_and_wait(hostd)
        assert outcome(starting).code != 0
        world.up()
        assert world.items()[box.name]["state"] == state
        world.ask("start", sandbox=box.name)
        box.git("fetch").expect_success("hostctl git fetch")


def test_an_attached_run_with_rm_goes_with_the_hostd_it_was_attached_to(world: Machine) -> None:
    world.kill("hostd")
    world.up()
    before = at_rest(world)
    name = new_name()
    with world.stopped_at("served") as stop:
        run = world.begin_run("--rm", "--", "sleep", "infinity", name=name)
        stop.wait()
    world.kill("hostd")
    assert outcome(run).code != 0
    world.up()
    eventually(lambda: name not in world.items(), "its removal")
    world.kill("hostd")
    world.up()
    assert_settles(world, before)


def test_a_detached_run_with_rm_is_removed_when_its_command_ends_under_another_hostd(
    world: Machine,
) -> None:
    name = new_name()
    waiting = "until [ -e /workspace/go ]; do sleep 0.1; done"
    run = world.begin_run("-d", "--rm", "--", "sh", "-c", waiting, name=name)
    assert outcome(run).code == 0
    identifier = str(world.inspect(name)["sandbox"])
    world.kill("hostd")
    world.up()
    assert name in world.items()
    (world.state(identifier) / "workspace" / "go").touch()
    eventually(lambda: name not in world.items(), "its removal")


def kill_at_random(world: Machine, box: Box, times: int, seed: int) -> None:
    """kill -9 at moments spread over a whole life; the same ones for the same seed."""
    moments = random.Random(seed)
    world.kill("hostd")
    world.up()
    before = at_rest(world)
    for _ in range(times):
        hostd = world.pid("hostd")
        run = world.begin_run("--rm", "--", "sleep", "0.2")
        time.sleep(moments.uniform(0.2, 1.5))
        kill_and_wait(hostd)
        outcome(run)
        world.up()
        eventually(lambda: list(world.items()) == [box.name], "the removal of the other")
    world.kill("hostd")
    world.up()
    assert_settles(world, before)


@pytest.mark.long
def test_hostd_killed_at_many_random_moments_leaves_nothing(
    world: Machine, guarded: tuple[Box, Sentinel]
) -> None:
    kill_at_random(world, guarded[0], 40, SEED)
