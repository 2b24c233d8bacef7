"""The broker is restarted while sandboxes work: nobody feels it, unless it is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess

import pytest

from hostctl.commands.status import daemon_status
from hostctl.commands.up import start_missing
from hostctl.output import Output
from tests.stage.boxes import HOME, Box, start_box
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import processes
from tests.stage.repositories import ALLOWED, make_large
from tests.waiting import eventually, readable

_MIB = 1 << 20
LARGE = "acme/large"
ASK = """\
while test -e "$2"; do
git ls-remote -q "$1" >/dev/null && echo fine || echo failed
done >>"$3" 2>&1
"""


class Asking:
    """A command that asks for refs in a loop, until it is told to end."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._flag, self._log = f"{HOME}/asking", f"{HOME}/asked"
        box.sh(f"touch {self._flag}").expect_success("touch")
        words = ("/bin/sh", "-c", ASK, "test", box.stage.url(ALLOWED), self._flag, self._log)
        self._process = box.begin(*words)

    @property
    def answers(self) -> list[str]:
        path = self._box.path(self._log)
        return path.read_text().splitlines() if path.exists() else []

    def more(self, count: int) -> None:
        enough = len(self.answers) + count
        eventually(lambda: len(self.answers) >= enough, f"{count} more answers")

    def end(self) -> list[str]:
        self._box.sh(f"rm {self._flag}").expect_success("rm")
        outcome(self._process)
        return self.answers


class Cloning:
    """A clone that stands still in the middle: its client does not read."""

    def __init__(self, box: Box) -> None:
        place = f"{HOME}/large"
        url = box.stage.url(LARGE)
        self._process = box.begin("git", "clone", "--no-checkout", "-q", url, place)
        packs = box.path(f"{place}/.git/objects/pack")

        def begun() -> bool:
            assert self._process.poll() is None, outcome(self._process)
            return any(path.stat().st_size > _MIB for path in packs.glob("tmp_pack_*"))

        eventually(begun, "the clone to begin")
        uid = box.inspect()["uids"]["untrusted"]
        found = [pid for pid, line in processes().items() if "index-pack" in line]
        self._pids = [pid for pid in found if os.stat(f"/proc/{pid}").st_uid == uid]
        assert self._pids
        self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            os.kill(pid, number)

    def go_on(self) -> subprocess.Popen[bytes]:
        self._signal(signal.SIGCONT)
        return self._process


@pytest.fixture
def box(fresh_stage: Gitmoat) -> Box:
    make_large(fresh_stage, LARGE, 90)  # more than all buffers on the way hold
    return start_box(fresh_stage, "--agent", "--repo", fresh_stage.url(LARGE))


def signal_broker(stage: Gitmoat, number: int) -> int:
    """A descriptor that becomes readable when it has ended."""
    pid = daemon_status(stage.paths.broker_admin_socket)["pid"]
    assert isinstance(pid, int)
    descriptor = os.pidfd_open(pid)
    os.kill(pid, number)
    return descriptor


def ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def begin_again(stage: Gitmoat) -> None:
    """Before all others: who asks waits for some seconds, and a busy machine is not the point."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        stage.daemons += start_missing(stage.paths, Output(quiet=True))
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def test_a_restart_of_the_broker_is_not_felt(box: Box) -> None:
    stage = box.stage
    asking, cloning = Asking(box), Cloning(box)
    asking.more(2)
    broker = signal_broker(stage, signal.SIGTERM)
    asking.more(2)  # new requests are served beside it
    assert not ended(broker), "it did not wait for the clone"
    clone = cloning.go_on()
    readable(broker, "the broker's end")
    begin_again(stage)  # nobody listens meanwhile; who asks waits
    asking.more(3)
    ran = outcome(clone)
    assert ran.code == 0, ran.err
    assert set(asking.end()) == {"fine"}


def test_up_waits_for_a_broker_that_is_ending_and_starts_the_next(box: Box) -> None:
    stage, cloning = box.stage, Cloning(box)
    before = daemon_status(stage.paths.broker_admin_socket)["pid"]
    broker = signal_broker(stage, signal.SIGTERM)
    eventually(
        lambda: daemon_status(stage.paths.broker_admin_socket).get("ending") is True,
        "the broker to say that it is ending",
    )
    up = stage.begin("up")
    assert up.stderr is not None
    waiting = f"waiting for the end of broker, pid {before} ...\n"
    assert up.stderr.readline() == waiting.encode()
    assert not ended(broker), "nothing has made it end sooner"
    clone = cloning.go_on()
    ran = outcome(up)
    assert (ran.code, ran.err) == (0, "starting broker ...\n")
    assert daemon_status(stage.paths.broker_admin_socket)["pid"] != before
    assert outcome(clone).code == 0
    assert box.run("git", "ls-remote", stage.url(LARGE)).code == 0


def test_a_broker_that_is_killed_cuts_the_clone_and_refs_are_asked_again(box: Box) -> None:
    """The control: what is not ended in order does not go on."""
    asking, cloning = Asking(box), Cloning(box)
    broker = signal_broker(box.stage, signal.SIGKILL)
    readable(broker, "the broker's end")
    begin_again(box.stage)
    ran = outcome(cloning.go_on())
    assert ran.code != 0
    asking.more(2)
    assert asking.end()[-1] == "fine"
