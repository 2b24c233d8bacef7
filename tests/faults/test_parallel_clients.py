"""Several hostctl at once, and hostctl killed: one after the other, one clear error, no orphan."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from hostctl.failure import Failure
from tests.faults.inventory import assert_settles, at_rest
from tests.faults.world import Machine, new_name
from tests.stage.command import Ran, outcome
from tests.waiting import eventually

SEED = 7


def at_once(world: Machine, *commands: tuple[str, ...]) -> list[Ran]:
    processes = [world.stage.begin(*words) for words in commands]
    return [outcome(process) for process in processes]


def together(*calls: Callable[[], object]) -> list[str]:
    """The code of each call's failure, or "ok": requests that arrive within a millisecond."""
    answers = ["?"] * len(calls)

    def call(number: int) -> None:
        try:
            calls[number]()
            answers[number] = "ok"
        except Failure as failure:
            answers[number] = failure.code

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def remover(world: Machine, name: str) -> Callable[[], object]:
    return lambda: world.ask("rm", sandbox=name, force=True)


def test_of_several_removals_one_removes_and_the_others_say_that_it_is_gone(world: Machine) -> None:
    before = at_rest(world)
    with world.box(repo=None) as box:
        answers = together(*[remover(world, box.name)] * 4)
        assert sorted(answers) == ["R103", "R103", "R103", "ok"]
    with world.box(repo=None) as box:
        rans = at_once(world, *[("rm", "--force", box.name)] * 2)
        assert sorted(ran.code for ran in rans) == [0, 4]
        loser = next(ran for ran in rans if ran.code)
        assert loser.err.startswith("error: there is no sandbox"), loser.err
    assert_settles(world, before)


def test_a_stopped_sandbox_is_removed_or_started_but_not_both(world: Machine) -> None:
    before = at_rest(world)
    with world.box(repo=None) as box:
        world.ask("stop", sandbox=box.name)
        answers = together(remover(world, box.name), lambda: world.ask("start", sandbox=box.name))
        assert answers[0] == "ok" and answers[1] in ("ok", "R103")
        assert box.name not in world.items()
    with world.box(repo=None) as box:
        world.ask("stop", sandbox=box.name)
        start = lambda: world.ask("start", sandbox=box.name)  # noqa: E731 - three of the same
        assert together(start, start, start) == ["ok"] * 3
        assert world.items()[box.name]["state"] == "running"
        stop = lambda: world.ask("stop", sandbox=box.name)  # noqa: E731
        assert together(stop, stop) == ["ok"] * 2
        assert world.items()[box.name]["state"] == "stopped"
    assert_settles(world, before)


def test_a_command_that_starts_while_its_sandbox_is_removed_ends(world: Machine) -> None:
    before = at_rest(world)
    for delay in (0.0, 0.3, 0.6):  # any moment is right
        with world.box(repo=None) as box:
            command = world.stage.begin("exec", box.name, "--", "sleep", "infinity")
            time.sleep(delay)
            world.ask("rm", sandbox=box.name, force=True)
            ran = outcome(command)
            assert ran.code in (4, 137) or "[R1" in ran.err, ran
    assert_settles(world, before)


def test_a_command_that_runs_ends_with_its_sandbox(world: Machine) -> None:
    before = at_rest(world)
    with world.box(repo=None) as box:
        command = box.begin("sh", "-c", "echo up; exec sleep infinity")
        assert command.stdout is not None and command.stdout.readline() == b"up\n"
        world.ask("rm", sandbox=box.name, force=True)
        assert outcome(command).code == 137
    assert_settles(world, before)


def test_a_fetch_ends_with_its_sandbox_and_says_why(world: Machine) -> None:
    before = at_rest(world)
    for delay in (0.0, 0.3, 0.6):  # any moment is right
        with world.box() as box:
            fetch = world.stage.begin("git", box.name, "--", "fetch")
            time.sleep(delay)
            world.ask("rm", sandbox=box.name, force=True)
            ran = outcome(fetch)
            assert ran.code == 0 or "[R10" in ran.err, ran
    assert_settles(world, before)


def test_of_two_sandboxes_with_one_name_one_is_made(world: Machine) -> None:
    before = at_rest(world)
    name = new_name()
    runs = [world.begin_run("-d", "--", "sleep", "infinity", name=name) for _ in range(2)]
    rans = [outcome(run) for run in runs]
    assert sorted(ran.code for ran in rans) == [0, 125]
    assert "[R104]" in next(ran.err for ran in rans if ran.code)
    assert list(world.items()).count(name) == 1
    world.ask("rm", sandbox=name, force=True)
    assert_settles(world, before)


def kill_clients(world: Machine, times: int, seed: int) -> None:
    moments, before = random.Random(seed), at_rest(world)
    for _ in range(times):
        name = new_name()
        run = world.begin_run("-d", "--", "sleep", "infinity", name=name)
        time.sleep(moments.uniform(0.05, 1.2))
        run.kill()
        run.communicate()
        eventually(lambda: _is_whole_or_gone(world), "a whole sandbox or none")
        if name in world.items():
            with suppress(Failure):  # hostd has removed it itself just now
                world.ask("rm", sandbox=name, force=True)
        assert_settles(world, before)


def _is_whole_or_gone(world: Machine) -> bool:
    """What is on disk is what hostd lists, and is complete."""
    listed = {str(item["sandbox"]) for item in world.items().values()}
    return listed == world.known() and all(world.step(each) == "served" for each in listed)


def test_a_client_killed_while_its_sandbox_is_made_leaves_a_whole_one_or_none(
    world: Machine,
) -> None:
    kill_clients(world, 3, SEED)


@pytest.mark.long
def test_many_clients_killed_while_their_sandboxes_are_made(world: Machine) -> None:
    kill_clients(world, 60, SEED + 1)


@pytest.mark.parametrize("step", ["directories", "rules", "listeners"])
def test_a_client_killed_before_its_command_starts_leaves_no_sandbox(
    world: Machine, step: str
) -> None:
    before = at_rest(world)
    with world.stopped_at(step) as stop:
        run = world.stage.begin("run", "-d", "--", "sleep", "infinity")
        stop.wait()
        run.kill()
        run.communicate()
    assert_settles(world, before)


def test_an_attached_run_with_rm_goes_with_its_client(world: Machine) -> None:
    before = at_rest(world)
    name = new_name()
    run: subprocess.Popen[bytes] = world.begin_run("--rm", "--", "sleep", "infinity", name=name)
    eventually(lambda: name in world.items(), "its start")
    eventually(lambda: all(world.step(i) == "served" for i in world.known()), "its command")
    run.kill()
    run.communicate()
    eventually(lambda: name not in world.items(), "its removal")
    assert_settles(world, before)
