"""Many lives and many deaths: afterwards the machine has what it had before, and nothing more."""

from __future__ import annotations

import random
import time

import pytest

from tests.faults.inventory import assert_settles, at_rest
from tests.faults.world import Machine, git_works, kill_and_wait
from tests.stage.command import outcome
from tests.waiting import PATIENCE, eventually

SEED = 42  # its first five have one of each
VICTIMS = ("sidecar", "zygote", "broker", "hostd", "launcher")


def live_and_die(world: Machine, cycles: int) -> None:
    before = at_rest(world)
    for cycle in range(cycles):
        repo = ("--repo", world.stage.url("acme/app")) if cycle % 5 == 0 else ()
        ran = world.stage.hostctl("run", "--rm", *repo, "--", "true", timeout=PATIENCE)
        ran.expect_success("hostctl run")
    assert_settles(world, before)


def test_ten_sandboxes_leave_nothing(world: Machine) -> None:
    live_and_die(world, 10)


@pytest.mark.long
def test_two_hundred_sandboxes_leave_nothing(world: Machine) -> None:
    live_and_die(world, 200)


def kill_anything(world: Machine, times: int, seed: int) -> None:
    """Each kill at a random moment of work that never stops, and everything comes back."""
    chance = random.Random(seed)
    world.kill("hostd")
    world.up()
    before = at_rest(world)
    forkers = set()
    with world.guarded_box() as (box, sentinel):
        others = set(world.items())
        for _ in range(times):
            victim = chance.choice(VICTIMS)
            forkers |= {world.pid("launcher"), world.pid("zygote")}
            target = box.sidecar if victim == "sidecar" else world.pid(victim)
            work = world.begin_run("--rm", "--", "sleep", "0.1")
            time.sleep(chance.uniform(0.0, 1.0))
            kill_and_wait(target)
            outcome(work)
            world.up()
            eventually(lambda: set(world.items()) == others, "the end of the work")
        eventually(lambda: world.inspect(box.name)["sidecar"]["pid"], "a sidecar")
        git_works(box)
        sentinel.assert_held()
    world.kill("hostd")  # as at the beginning: one that has just started
    world.up()
    assert_settles(world, before)
    assert not {pid for pid in forkers if is_forker(pid)}


def is_forker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
            return b"hostd.launcher" in words or b"hostd.zygote" in words
    except FileNotFoundError:
        return False


def test_five_random_kills_leave_nothing(world: Machine) -> None:
    kill_anything(world, 5, SEED)


@pytest.mark.long
def test_fifty_random_kills_leave_nothing(world: Machine) -> None:
    kill_anything(world, 50, SEED + 1)
