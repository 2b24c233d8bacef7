"""One storm of a given length on a Gitmoat of its own, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import frozen

from tests.faults.inventory import Inventory, assert_settles, at_rest
from tests.faults.world import Machine, watched
from tests.soak.storm import Storm
from tests.stage.gitmoat import opened
from tests.stage.internet import RESOLVER, surroundings
from tests.stage.kernel_view import peak_memory


@frozen
class Result:
    seed: int
    seconds: float
    steps: int
    most: int
    actions: dict[str, int]
    slowest: tuple[float, str]
    records: int
    searched: int
    peaks: dict[str, int]

    def lines(self) -> list[str]:
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.actions.items()))
        peaks = ", ".join(f"{name} {kib // 1024} MiB" for name, kib in self.peaks.items())
        return [
            f"seed {self.seed}: {self.steps} steps in {self.seconds:.0f} s, "
            f"at most {self.most} sandboxes",
            f"done: {done}",
            f"slowest step: {self.slowest[1]}, {self.slowest[0]:.1f} s; peak memory: {peaks}",
            f"{self.records} journal records read, {self.searched >> 10} KiB of logs and journals "
            "searched for the password",
            "every invariant held after every step; nothing was left at the end",
        ]


def soak(
    seed: int,
    seconds: float,
    sandboxes: int,
    say: Callable[[str], None] = lambda text: None,
    least: int = 0,
) -> Result:
    """AssertionError, with the seed and the step, when something does not hold.

    So long, and so many steps at least.
    """
    with surroundings() as around, around.host.entered(), opened() as stage:
        with stage.paths.broker_toml.open("a") as config:
            config.write(f'\n[egress]\nresolvers = ["{RESOLVER}"]\n')
        stage.hostctl("reload").expect_success("reload")
        with watched(stage) as world:
            with world.box():  # what is made once for all, and stays, is there before the inventory
                pass
            world.kill("hostd")
            world.up()
            before = at_rest(world)
            storm = Storm.over(world, around, seed, sandboxes)
            return _run(world, storm, before, seed, (seconds, least), say)


def _run(
    world: Machine,
    storm: Storm,
    before: Inventory,
    seed: int,
    length: tuple[float, int],
    say: Callable[[str], None],
) -> Result:
    seconds, least = length
    begun, steps, most, said = time.monotonic(), 0, 0, 0.0
    name = "the beginning"
    try:
        while steps < least or time.monotonic() - begun < seconds:
            name = storm.step()
            steps += 1
            most = max(most, len(storm.members))
            if time.monotonic() - said > 30:
                said = time.monotonic()
                say(f"{said - begun:6.0f} s  step {steps}  {len(storm.members)} sandboxes")
        name = "the end"
        peaks = {each: peak_memory(world.pid(each)) for each in ("hostd", "broker")}
        storm.end()
        world.kill("hostd")  # as at the beginning: one that has just started
        world.up()
        assert_settles(world, before)
    except BaseException as problem:
        where = f"seed {seed}, step {steps + 1} (after {name})"
        raise AssertionError(f"{where}: {problem}\n{storm.watch.last_words()}") from problem
    watch = storm.watch
    return Result(
        seed=seed,
        seconds=time.monotonic() - begun,
        steps=steps,
        most=most,
        actions=dict(storm.done),
        slowest=storm.slowest,
        records=watch.records,
        searched=watch.bytes,
        peaks=peaks,
    )
