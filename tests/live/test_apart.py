"""Whatever code of one sandbox does to what is started in it, others are started and served."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hostd.process.cgroups import find_hierarchies
from tests.stage.boxes import Box, MakeBox
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED

# A lease is asked back with SIGIO, which is the moment when somebody waits for it.
LEASE = """
import fcntl, os, signal
file = os.open("/workspace/build.sh", os.O_CREAT | os.O_RDWR, 0o755)
os.write(file, b"#!/bin/sh\\nexit 0\\n")
signal.signal(signal.SIGIO, lambda *_: print("asked", flush=True))
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
while True:
    signal.pause()
"""
# All processes of its process namespace that it may signal, but itself.
STOPPING = """
import os, signal
print("begun", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:
        pass
"""


@contextmanager
def hostile(box: Box, source: str) -> Iterator[Callable[[], bytes]]:
    """A program that runs in the sandbox; yields what reads its next line."""
    process = box.begin("/usr/bin/python3", "-I", "-c", source)
    assert process.stdout is not None
    try:
        yield process.stdout.readline
    finally:
        process.kill()
        process.communicate()


def served(box: Box, stage: Gitmoat) -> None:
    """What the owner of another sandbox does all day."""
    box.run("true").expect_success("exec")
    box.git("fetch", "origin").expect_success("the git gate")
    ran = stage.hostctl("run", "--rm", "--repo", stage.url(ALLOWED), "--", "true", timeout=120)
    ran.expect_success("run")


def ended(process: subprocess.Popen[bytes]) -> None:
    ran = outcome(process)
    assert (ran.code, "[R117]" in ran.err) == (126, True), ran
    assert "did not start within 10 s" in ran.err


def test_a_lease_on_a_program_delays_who_runs_that_program_and_nobody_else(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    attacker, other = make_box(), make_box()
    with hostile(attacker, LEASE) as line:
        assert line() == b"held\n"
        build = attacker.begin("/workspace/build.sh")
        assert line() == b"asked\n"
        served(other, stage)
        ended(build)
        attacker.run("true").expect_success("another program there")
    attacker.run("/workspace/build.sh").expect_success("the program, when nobody holds it")


def test_code_that_stops_all_it_can_signal_stops_nobody_elses_start(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    attacker, other = make_box(), make_box()
    with hostile(attacker, STOPPING) as line:
        assert line() == b"begun\n"
        victims = [attacker.begin("true") for _ in range(8)]
        served(other, stage)
        for victim in victims:
            victim.kill()
            victim.communicate()
    stage.hostctl("rm", "--force", attacker.name).expect_success("rm")


def test_a_frozen_sandbox_holds_up_its_own_commands_and_can_be_removed(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    attacker, other = make_box(), make_box()
    freezer = group_of(attacker) / "cgroup.freeze"
    freezer.write_text("1", encoding="ascii")
    held = attacker.begin("true")
    served(other, stage)
    ended(held)
    stage.hostctl("rm", "--force", attacker.name).expect_success("rm")


def group_of(box: Box) -> Path:
    """Its v2 group."""
    unified = find_hierarchies().unified
    assert unified is not None, "these tests need cgroup v2"
    lines = Path(f"/proc/{box.inspect()['pid']}/cgroup").read_text(encoding="ascii").splitlines()
    return Path(f"{unified}{next(line[3:] for line in lines if line.startswith('0::'))}")
