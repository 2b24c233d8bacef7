"""kill -9 at the worst moment: a clear error, nothing half applied, the next operation works."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.live.held import begin_clone, begin_push, broke_off
from tests.stage.boxes import HOME, Box, Clone, MakeBox, alive
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import (
    ALLOWED,
    make_empty,
    objects,
    reaching_upstream,
    refs,
)
from tests.waiting import eventually

WAITING = 'echo up; until [ -e "$1" ]; do sleep 0.1; done; exit 9'


@pytest.fixture(scope="module")
def victim(make_shared_box: MakeBox) -> Box:
    return make_shared_box("--policy", "play", repo=None)


@pytest.fixture(scope="module")
def stock(victim: Box) -> Clone:
    """A repository with a commit that takes a moment to push."""
    directory = f"{HOME}/stock"
    script = (
        'git init -q -b main "$1" && cd "$1" && git config core.bigFileThreshold 1k &&'
        " git config core.compression 0 && head -c 80000000 /dev/urandom | split -b 1000000 &&"
        " git add . && git commit -q -m Stock"
    )
    victim.sh(script, directory).expect_success("git commit")
    return Clone(victim, directory)


def kill_sidecar(box: Box) -> int:
    pid = box.sidecar
    os.kill(pid, signal.SIGKILL)
    return pid


def works(box: Box) -> None:
    listed = box.run("git", "ls-remote", box.stage.url("play/one"))
    listed.expect_success("the next operation")


def test_a_sidecar_killed_while_idle_is_replaced_before_anybody_notices(
    victim: Box, stage: Gitmoat
) -> None:
    old = kill_sidecar(victim)
    works(victim)
    new = victim.inspect()["sidecar"]
    assert new["pid"] != old and alive(new["pid"])
    sessions = json.loads(stage.hostctl("--json", "ls", "--fleet").out)["items"]
    mine = [one["state"] for one in sessions if one["name"] == victim.name]
    assert mine.count("active") == 1


def test_nobody_can_take_the_port_while_the_sidecar_is_dead(victim: Box) -> None:
    script = (
        "import os, socket, sys\n"
        "print('up', flush=True)\n"
        "while not os.path.exists('/home/sandbox/enough'):\n"
        "    for port in (418, 419):\n"
        "        for address in ('127.0.0.1', '0.0.0.0', '127.0.0.2'):\n"
        "            sock = socket.socket()\n"
        "            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        "            try:\n"
        "                sock.bind((address, port))\n"
        "                sys.exit('bound %s:%d' % (address, port))\n"
        "            except OSError:\n"
        "                sock.close()\n"
    )
    squatter = victim.begin("/usr/bin/python3", "-I", "-c", script)
    assert squatter.stdout is not None and squatter.stdout.readline() == b"up\n"
    for _ in range(3):
        old = kill_sidecar(victim)
        eventually(lambda: victim.inspect()["sidecar"]["pid"] not in (None, old), "a new sidecar")  # noqa: B023
    victim.path(f"{HOME}/enough").touch()
    ran = outcome(squatter)
    assert (ran.code, ran.err) == (0, "")
    works(victim)


def test_a_sidecar_killed_in_a_clone_ends_it_with_an_error_and_the_next_works(
    victim: Box, large: str
) -> None:
    sidecar = victim.sidecar
    process = begin_clone(victim, "broken")
    os.kill(sidecar, signal.SIGKILL)
    broke_off(outcome(process))
    works(victim)
    assert victim.run("ls", f"{HOME}/broken").code != 0  # git removes what it has not finished


def test_a_sidecar_killed_in_a_push_leaves_nothing_half_applied(
    stock: Clone, stage: Gitmoat
) -> None:
    make_empty(stage, "play/half")
    sidecar = stock.box.sidecar
    process = begin_push(stock, "play/half")
    os.kill(sidecar, signal.SIGKILL)
    broke_off(outcome(process))
    assert refs(stage, "play/half") == {}
    assert objects(stage, "play/half") == set()
    works(stock.box)


def test_a_client_killed_in_a_push_leaves_nothing_half_applied(
    stock: Clone, stage: Gitmoat
) -> None:
    make_empty(stage, "play/left")
    process = begin_push(stock, "play/left")
    process.kill()  # hostctl; hostd then ends the command
    outcome(process)
    works(stock.box)
    assert (refs(stage, "play/left"), objects(stage, "play/left")) == ({}, set())


@pytest.mark.parametrize("forker", ["launcher", "zygote"])
def test_a_killed_forker_is_replaced_and_running_sandboxes_do_not_notice(
    victim: Box, stage: Gitmoat, forker: str
) -> None:
    sidecar = victim.sidecar
    command = stage.begin("exec", victim.name, "--", "sh", "-c", WAITING, "sh", f"{HOME}/{forker}")
    assert command.stdout is not None
    assert command.stdout.readline() == b"up\n"
    old = pid_of(stage, forker)
    os.kill(old, signal.SIGKILL)
    eventually(lambda: pid_of(stage, forker) not in (0, old), "a new one")
    works(victim)
    assert victim.sidecar == sidecar
    ran = stage.hostctl("run", "--rm", "--repo", stage.url(ALLOWED), "--", "sh", "-c", "exit 5")
    assert ran.code == 5, ran.err
    victim.path(f"{HOME}/{forker}").touch()
    assert outcome(command).code == 9  # hostd waits for what the old one had started
    kill_sidecar(victim)
    works(victim)


def pid_of(stage: Gitmoat, forker: str) -> int:
    """Its pid; 0 while there is none."""
    pid: int | None = json.loads(stage.hostctl("--json", "status").out)["hostd"][forker]
    return pid or 0


def test_a_sandbox_whose_pause_is_killed_is_over_and_can_be_removed(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    """Killing the first process of a pid namespace ends everything in it."""
    box = make_box("--agent")
    about = box.inspect()
    os.kill(about["pid"], signal.SIGKILL)
    eventually(lambda: not alive(about["pid"]), "its end")
    with reaching_upstream(stage) as requests:
        assert box.run("git", "ls-remote", stage.url(ALLOWED)).code != 0
    assert requests == []
    stage.hostctl("rm", "--force", box.name).expect_success("rm")
    assert stage.hostctl("inspect", box.name).code == 4
