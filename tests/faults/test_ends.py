"""However a sandbox ends, `inspect` and the journal say why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.faults.world import Machine, kill_and_wait
from tests.waiting import eventually


def reasons(world: Machine, identifier: object) -> list[str]:
    """Of its ends, from hostd's journal."""
    lines = world.stage.paths.hostd_audit.read_text(encoding="utf-8").splitlines()
    return [
        str(entry["reason"])
        for entry in map(json.loads, lines)
        if entry["event"] in ("sandbox.stopped", "sandbox.removed")
        and entry["sandbox"] == identifier
    ]


def told(world: Machine, name: str) -> str:
    """What is told of a sandbox that was ended, once it is."""
    eventually(lambda: world.items()[name]["state"] == "stopped", "its end")
    about = world.inspect(name)
    reason = str(about["ended"]["reason"])
    assert about["ended"]["at"] > 0
    assert reasons(world, about["sandbox"])[-1] == reason
    return reason


def test_a_stop_says_who_stopped_it_and_a_start_forgets_it(world: Machine) -> None:
    with world.box(repo=None) as box:
        world.ask("stop", sandbox=box.name)
        assert told(world, box.name) == "hostctl stop"
        shown = world.stage.hostctl("inspect", box.name).expect_success("inspect")
        assert "hostctl stop" in shown
        world.ask("start", sandbox=box.name)
        assert world.inspect(box.name)["ended"] is None


def test_a_first_process_that_was_killed_is_named(world: Machine) -> None:
    with world.box(repo=None) as box:
        os.kill(world.inspect(box.name)["pid"], signal.SIGKILL)
        assert told(world, box.name) == "its first process ended from outside"


def test_what_the_watchdog_saw_is_named(world: Machine) -> None:
    with world.box(repo=None) as box:
        network = f"/proc/{world.inspect(box.name)['pid']}/ns/net"
        subprocess.run(["nsenter", f"--net={network}", "nft", "flush", "ruleset"], check=True)
        assert told(world, box.name).startswith("frozen: ")


def test_one_that_died_while_hostd_was_away_says_so(world: Machine) -> None:
    with world.box(repo=None) as box:
        pid = world.inspect(box.name)["pid"]
        world.kill("hostd")
        kill_and_wait(pid)
        world.up()
        assert told(world, box.name) == "its processes were gone when hostd started"


def test_one_from_before_a_reboot_says_so(world: Machine) -> None:
    with world.box(repo=None) as box:
        state = world.state(str(world.inspect(box.name)["sandbox"])) / "state.json"
        world.kill("hostd")
        _pretend_a_reboot(state)
        world.up()
        assert told(world, box.name) == "the machine was restarted"


def test_a_removal_is_recorded_with_who_asked(world: Machine) -> None:
    with world.box(repo=None) as box:
        identifier = world.inspect(box.name)["sandbox"]
        world.ask("rm", sandbox=box.name, force=True)
        assert reasons(world, identifier) == ["hostctl rm"]


def _pretend_a_reboot(state: Path) -> None:
    """The record is of another boot; what it names is not looked for."""
    record = json.loads(state.read_text(encoding="utf-8"))
    state.write_text(json.dumps(record | {"boot_id": "of-another-day"}), encoding="utf-8")
