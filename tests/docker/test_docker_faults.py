"""What happens to a sandbox when its containers, Docker, hostd or its sidecar are interfered with.

Never a way out, never a stranger served; and afterwards it works again or says what it needs.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from hostctl.commands.up import start_missing
from hostctl.output import Output
from tests.docker.engines import TestEngine, image
from tests.docker.images import busybox_like
from tests.stage.boxes import Box, alive, box_maker
from tests.stage.gitmoat import Gitmoat, opened
from tests.waiting import PATIENCE, eventually

QUICK = '[watchdog]\ninterval = "1s"\n'
CLOSED = (
    "for target in '127.0.0.1 418' '203.0.113.5 443' '169.254.169.254 80'; do"
    ' nc -w 1 $target </dev/null && echo "reached $target"; done; true'
)


@pytest.fixture(scope="module")
def stage(engine: TestEngine) -> Iterator[Gitmoat]:
    """Its own, with a watchdog that looks every second."""
    with opened(engine.settings() + QUICK) as made:
        yield made


@pytest.fixture(scope="module")
def shared(stage: Gitmoat) -> Iterator[Box]:
    with box_maker(stage) as make:
        yield make("--agent", "--push", "agent/**", "--image", image("busybox"))


@pytest.fixture
def box(stage: Gitmoat) -> Iterator[Box]:
    with box_maker(stage) as make:
        yield make("--agent", "--push", "agent/**", "--image", image("busybox"))


def state(box: Box) -> str:
    listed = box.stage.hostctl("ls").out.splitlines()
    return next((line.split()[2] for line in listed if box.name in line), "gone")


def works(box: Box) -> bool:
    return box.run("git", "-C", "/workspace", "fetch", "-q", "origin").code == 0


def comes_back(box: Box) -> None:
    """By one command, with its files, closed to everything else."""
    box.stage.hostctl("start", box.name).expect_success("hostctl start")
    assert works(box)
    assert box.sh(CLOSED).out == ""


def why(box: Box) -> str:
    return box.stage.hostctl("--json", "audit", "query", "--sandbox", box.name, "-n", "50").out


@pytest.mark.parametrize("which", ["", "-net"])
def test_a_container_removed_behind_our_back_stops_the_sandbox(
    box: Box, engine: TestEngine, which: str
) -> None:
    about = box.inspect()
    engine.docker("rm", "-f", f"gitmoat-{about['sandbox']}{which}")
    eventually(lambda: state(box) == "stopped", "the sandbox is stopped")
    eventually(lambda: not alive(about["sidecar"]["pid"]), "its sidecar is gone")
    assert not alive(about["pid"])
    comes_back(box)


@pytest.mark.parametrize("which", ["", "-net"])
def test_a_container_that_docker_restarts_is_not_served(
    box: Box, engine: TestEngine, which: str
) -> None:
    about = box.inspect()
    engine.try_docker("restart", "-t", "1", f"gitmoat-{about['sandbox']}{which}")
    eventually(lambda: state(box) == "stopped", "the sandbox is stopped")
    eventually(lambda: not alive(about["sidecar"]["pid"]), "its sidecar is gone")
    comes_back(box)
    assert box.inspect()["netns"] != about["netns"] or box.inspect()["pid"] != about["pid"]


def test_the_first_process_killed_stops_the_sandbox(box: Box) -> None:
    os.kill(box.inspect()["pid"], signal.SIGKILL)
    eventually(lambda: state(box) == "stopped", "the sandbox is stopped")
    comes_back(box)


def test_a_paused_sandbox_says_so_and_goes_on_afterwards(shared: Box, engine: TestEngine) -> None:
    container = shared.inspect()["container"]
    engine.docker("pause", container)
    try:
        ran = shared.run("true")
        assert ran.code == 125
        assert "docker unpause" in ran.err
    finally:
        engine.docker("unpause", container)
    assert works(shared)


def test_a_paused_sandbox_can_be_removed(box: Box, engine: TestEngine) -> None:
    container = box.inspect()["container"]
    engine.docker("pause", container)
    box.remove()
    assert state(box) == "gone"
    assert engine.try_docker("inspect", container).returncode != 0


def test_a_second_container_in_the_network_freezes_the_session(
    box: Box, engine: TestEngine
) -> None:
    holder = f"gitmoat-{box.inspect()['sandbox']}-net"
    guest = engine.docker(
        *("run", "-d", "--network", f"container:{holder}", "--entrypoint=/bin/sleep"),
        *(image("debian"), "600"),
    )
    try:
        eventually(lambda: state(box) == "stopped", "the sandbox is stopped")
        assert "another container shares its network" in why(box)
    finally:
        engine.docker("rm", "-f", guest)


def test_limits_taken_away_behind_our_back_freeze_the_session(box: Box, engine: TestEngine) -> None:
    engine.docker("update", "--restart", "always", box.inspect()["container"])
    eventually(lambda: state(box) == "stopped", "the sandbox is stopped")
    assert "Docker would restart it without us" in why(box)


def test_a_killed_sidecar_is_replaced_and_the_container_inspected_again(shared: Box) -> None:
    before = shared.inspect()
    os.kill(before["sidecar"]["pid"], signal.SIGKILL)
    eventually(lambda: works(shared), "git works again")
    after = shared.inspect()
    assert after["sidecar"]["pid"] != before["sidecar"]["pid"]
    assert after["container"] == before["container"]
    assert after["epoch"] > before["epoch"]


def test_a_docker_that_hangs_does_not_touch_what_runs_and_delays_nobody(
    shared: Box, engine: TestEngine, stage: Gitmoat
) -> None:
    engine.signal(signal.SIGSTOP)
    try:
        assert works(shared)
        assert stage.hostctl("run", "--rm", "--", "true").code == 0, "bubblewrap goes on"
        ran = stage.hostctl(
            "run", "--rm", "--image", image("debian"), "--", "true", timeout=PATIENCE
        )
        assert (ran.code, "R113" in ran.err) == (125, True)
    finally:
        engine.signal(signal.SIGCONT)
    eventually(lambda: works(shared), "git works")
    stage.hostctl("run", "--rm", "--image", image("debian"), "--", "true").expect_success("run")


def test_a_killed_hostd_is_followed_by_one_that_adopts_the_sandbox(
    box: Box, stage: Gitmoat
) -> None:
    before = box.inspect()
    _kill_hostd(stage)
    stage.daemons += start_missing(stage.paths, Output(quiet=True))
    after = box.inspect()
    same = ("container", "pid", "netns", "sandbox")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert works(box)


def test_a_container_removed_while_hostd_was_away_is_noticed(
    box: Box, stage: Gitmoat, engine: TestEngine
) -> None:
    about = box.inspect()
    _kill_hostd(stage)
    engine.docker("rm", "-f", about["container"])
    stage.daemons += start_missing(stage.paths, Output(quiet=True))
    assert state(box) == "stopped"
    assert not engine.docker("ps", "-aq", "--filter", f"name=gitmoat-{about['sandbox']}")
    comes_back(box)


def _kill_hostd(stage: Gitmoat) -> None:
    daemon = next(each for each in reversed(stage.daemons) if each.name == "hostd")
    daemon.process.kill()
    daemon.process.wait()


@pytest.mark.parametrize("keeps", [False, True])
def test_a_docker_that_is_restarted_ends_sandboxes_or_leaves_them(keeps: bool) -> None:
    """With an engine of its own; one with live-restore leaves its containers running."""
    own = TestEngine(options=("--live-restore",) if keeps else ())
    try:
        own.start()
        own.docker("import", "-", image("busybox"), stdin=busybox_like())
        with opened(own.settings() + QUICK) as other, box_maker(other) as make:
            box = make("--agent", "--push", "agent/**", "--image", image("busybox"))
            before = box.inspect()
            own.stop()
            if keeps:
                assert works(box), "Docker is away, the sandbox is not"
                own.start()
                time.sleep(2)  # two looks of the watchdog
                assert box.inspect()["pid"] == before["pid"]
                assert works(box)
            else:
                eventually(lambda: state(box) == "stopped", "the sandbox is stopped")
                assert "R113" in other.hostctl("start", box.name).err
                own.start()
                comes_back(box)
    finally:
        own.remove()
