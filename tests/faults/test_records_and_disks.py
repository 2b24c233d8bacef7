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
from tests.faults.world import Machine, ended, git_works, kill_and_wait
from tests.stage.boxes import Box
from tests.stage.repositories import ALLOWED
from tests.waiting import eventually


def identifier(world: Machine, box: Box) -> str:
    return str(world.inspect(box.name)["sandbox"])


def keep_something(box: Box) -> None:
    box.sh("echo kept > /workspace/kept").expect_success("writing")


def has_kept_it(box: Box) -> bool:
    return box.sh("cat /workspace/kept").out == "kept\n"


def test_down_stops_everything_and_keeps_the_workspaces(world: Machine) -> None:
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
    world: Machine,
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


def test_nothing_of_another_boot_is_adopted(world: Machine) -> None:
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


def test_a_record_that_cannot_be_read_costs_no_files_and_stops_nobody_else(world: Machine) -> None:
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
def test_a_sandbox_that_lost_one_of_its_rooms_is_stopped_at_once(world: Machine, room: str) -> None:
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
def kept_busy(directory: Path) -> Iterator[None]:
    """Another file system in there: whoever removes the tree leaves that alone, and fails."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


def test_a_sandbox_whose_removal_failed_can_only_be_removed(world: Machine) -> None:
    with world.box("--agent") as box:
        keep_something(box)
        state = world.state(identifier(world, box))
        with kept_busy(state / "busy"):
            with pytest.raises(Failure, match="not all removed"):
                world.ask("rm", sandbox=box.name, force=True)
            world.ask("stop", sandbox=box.name)
            with pytest.raises(Failure, match="cannot be started: it is removing"):
                world.ask("start", sandbox=box.name)
            world.down()
            world.up()
            assert world.items()[box.name]["state"] == "removing"
        world.ask("rm", sandbox=box.name)
        assert box.name not in world.items() and not state.exists()


@contextmanager
def small_disk(world: Machine) -> Iterator[Path]:
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


def test_a_full_disk_refuses_new_sandboxes_and_lets_old_ones_go(world: Machine) -> None:
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


@contextmanager
def one_small_disk(world: Machine, options: str) -> Iterator[Path]:
    """All that broker, hostd and sandboxes write, logs too, on one small file system."""
    world.down()
    var, aside = world.stage.root / "var", world.stage.root / "var.aside"
    var.rename(aside)
    var.mkdir(mode=0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", var], check=True)
    try:
        subprocess.run(["cp", "-a", f"{aside}/.", var], check=True)
        world.up()
        yield var
        world.down()
    finally:
        subprocess.run(["umount", "--lazy", var], check=True)


# They take what becomes free at once.
FILLS_THE_DISK = "while :; do cat /dev/zero >> /workspace/filler 2> /dev/null; sleep 0.05; done"
MAKES_FILES = """n=0; while :; do
if echo 2> /dev/null > /workspace/$n; then n=$((n+1)); else sleep 0.05; fi; done"""


def is_full(var: Path) -> bool:
    found = os.statvfs(var)
    return found.f_bfree == 0 or found.f_ffree < 16


@pytest.mark.parametrize(
    ("options", "hostile"),
    [("size=48m", FILLS_THE_DISK), ("size=256m,nr_inodes=2000", MAKES_FILES)],
    ids=["space", "files"],
)
def test_a_sandbox_that_fills_the_disk_stops_neither_git_of_another_nor_a_revocation(
    fresh_world: Machine, options: str, hostile: str
) -> None:
    world = fresh_world
    with one_small_disk(world, options) as var, world.box("--agent", "--push", "agent/**") as box:
        with world.box("--agent", command=("/bin/sh", "-c", hostile)) as other:
            eventually(lambda: is_full(var), "a full disk", 120)
            url = world.stage.url(ALLOWED)
            box.sh(f"git clone -q {url} /tmp/c").expect_success("a clone")  # memory, not disk
            box.sh(COMMIT_AND_PUSH).expect_success("a push")
            box.sh("git -C /tmp/c fetch -q").expect_success("a fetch")
            assert world.stage.upstream_ref("refs/heads/agent/full") is not None
            told = world.stage.hostctl("status")
            assert told.code == 1, told.text
            assert told.out.count("the disk of the audit journal is full") == 2, told.out
            assert str(world.stage.paths.broker_audit.parent) in told.out
            world.stage.hostctl("session", "revoke", other.name).expect_success("a revocation")
            assert other.name not in world.sessions().values()
            assert "S101" in other.sh(f"git ls-remote {url}").err
            world.stage.hostctl("rm", "--force", other.name).expect_success("rm")
        eventually(lambda: world.stage.hostctl("status").code == 0, "health with space", 60)
        world.stage.hostctl("audit", "verify").expect_success("audit verify")


COMMIT_AND_PUSH = """cd /tmp/c &&
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x &&
git push -q origin HEAD:refs/heads/agent/full"""
