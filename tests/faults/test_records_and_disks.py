"""What is left on disk, and what a hostd makes of it: also when it is full or damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostctl.failure import Failure
from tests.faults.inventory import assert_settles, at_rest
from tests.faults.world import World, ended, git_works, kill_and_wait
from tests.live.boxes import Box, eventually

pytestmark = pytest.mark.live


def identifier(world: World, box: Box) -> str:
    return str(world.inspect(box.name)["sandbox"])


def keep_something(box: Box) -> None:
    box.sh("echo kept > /workspace/kept").expect_success("writing")


def has_kept_it(box: Box) -> bool:
    return box.sh("cat /workspace/kept").out == "kept\n"


def test_down_stops_everything_and_keeps_the_workspaces(world: World) -> None:
    with world.box("--agent") as box:
        identifier = str(world.inspect(box.name)["sandbox"])
        sidecar = box.sidecar
        box.sh("echo kept > /workspace/kept").expect_success("writing")
        world.down()
        assert ended(sidecar)
        assert (world.state(identifier) / "workspace" / "kept").exists()
        world.up()
        assert world.items()[box.name]["state"] == "stopped"
        assert box.run("true").code != 0
        world.ask("start", sandbox=box.name)
        assert box.sh("cat /workspace/kept").expect_success("reading") == "kept"
        git_works(box)


def test_after_everything_was_killed_sandboxes_are_stopped_and_can_be_started(
    world: World,
) -> None:
    """As after a power cut, but for the boot id."""
    with world.box("--agent") as box:
        keep_something(box)
        about = world.inspect(box.name)
        kill_and_wait(world.pid("hostd"))
        kill_and_wait(world.pid("broker"))
        kill_and_wait(about["sidecar"]["pid"])
        kill_and_wait(about["pid"])
        world.up()
        assert world.items()[box.name]["state"] == "stopped"
        assert box.name not in world.sessions().values()
        world.ask("start", sandbox=box.name)
        assert has_kept_it(box)
        git_works(box)
        after = world.inspect(box.name)
        assert after["epoch"] > about["epoch"]
        assert after["session"]["id"] != about["session"]["id"]


def test_nothing_of_another_boot_is_adopted(world: World) -> None:
    with world.box("--agent") as box:
        keep_something(box)
        about = world.inspect(box.name)
        world.kill("hostd")
        record = world.state(about["sandbox"]) / "state.json"
        data = json.loads(record.read_text())
        record.write_text(json.dumps(data | {"boot_id": "another"}))
        world.up()
        assert world.items()[box.name]["state"] == "stopped"
        eventually(lambda: ended(about["pid"]) and ended(about["sidecar"]["pid"]), "its end")
        assert box.name not in world.sessions().values()
        world.ask("start", sandbox=box.name)
        assert has_kept_it(box)
        git_works(box)


def test_a_record_that_cannot_be_read_costs_no_files_and_stops_nobody_else(world: World) -> None:
    before = at_rest(world)
    with world.box() as other, world.box() as box:
        keep_something(box)
        about = world.inspect(box.name)
        name = str(about["sandbox"])
        world.kill("hostd")
        (world.state(name) / "state.json").write_text("nonsense")
        world.up()
        assert world.items()[name]["state"] == "damaged"
        assert world.items()[other.name]["state"] == "running"
        eventually(lambda: ended(about["pid"]) and ended(about["sidecar"]["pid"]), "its end")
        assert box.name not in world.sessions().values()
        assert (world.state(name) / "workspace" / "kept").read_text() == "kept\n"
        assert name in world.stage.hostctl("ls").expect_success("ls")
        with pytest.raises(Failure, match="it is damaged"):
            world.ask("start", sandbox=name)
        world.ask("rm", sandbox=name, force=False)
        assert name not in world.items()
    world.kill("hostd")
    world.up()
    assert_settles(world, before)


@pytest.mark.parametrize("room", ["room", "gate", "room-monitor"])
def test_a_sandbox_that_lost_one_of_its_rooms_is_stopped_at_once(world: World, room: str) -> None:
    with world.box("--agent") as box:
        name = identifier(world, box)
        record = json.loads((world.state(name) / "state.json").read_text())
        os.kill(record["processes"][room][0], signal.SIGKILL)
        if room == "room-monitor":  # nobody needs that one: what it watched lives
            git_works(box)
            return
        eventually(lambda: world.items()[box.name]["state"] == "stopped", "its end")
        assert box.name not in world.sessions().values()
        world.ask("start", sandbox=box.name)
        git_works(box)


@contextmanager
def small_disk(world: World) -> Iterator[Path]:
    """The sandboxes' own file system, of a few megabytes."""
    world.kill("hostd")
    options = ["-o", "size=16m,mode=0700"]
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", world.sandboxes], check=True)
    world.up()
    try:
        yield world.sandboxes / "filler"
    finally:
        world.kill("hostd")
        umount = ["umount", str(world.sandboxes)]
        # What hostd had started takes a moment to end with it.
        eventually(lambda: subprocess.run(umount, check=False).returncode == 0, "umount")
        world.up()


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_refuses_new_sandboxes_and_lets_old_ones_go(world: World) -> None:
    with small_disk(world) as filler, world.box() as box, world.box(repo=None) as other:
        fill(filler)
        before = at_rest(world)
        ran = world.stage.hostctl("run", "--rm", "--", "true")
        assert ran.code == 125 and "No space left" in ran.err, ran.err
        assert_settles(world, before)
        git = box.git("ls-remote")  # needs no space
        assert git.code == 0, git.err
        world.ask("stop", sandbox=other.name)
        world.ask("rm", sandbox=other.name, force=True)
        world.ask("rm", sandbox=box.name, force=True)
        assert world.items() == {}
        filler.unlink()
        world.stage.hostctl("run", "--rm", "--", "true").expect_success("run again")
