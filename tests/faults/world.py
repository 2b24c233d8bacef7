"""A Gitmoat to break: its daemons by pid, its records on disk, and starting again what is dead."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

from hostctl.control_client import ask, items_of
from hostctl.failure import Failure
from hostctl.setup.daemons import start_daemon
from tests.faults.failpoints import StandsStill, Stop
from tests.faults.sentinel import SENTINEL, Sentinel
from tests.stage.boxes import Box
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED
from tests.waiting import PATIENCE, readable

WATCHDOG = '\n[watchdog]\ninterval = "1s"\n'


def kill_and_wait(pid: int, number: int = signal.SIGKILL) -> None:
    """Until it is dead, whoever its parent is."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, number)
        readable(process, f"the end of {pid}")
    finally:
        os.close(process)


def ended(pid: int) -> bool:
    """Also when nobody has asked for its status yet."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 0)[0])
    finally:
        os.close(process)


@frozen
class Machine:
    stage: Gitmoat
    stands_still: StandsStill = Factory(StandsStill)

    # Daemons

    def ask(self, op: str, **members: object) -> Mapping[str, Any]:
        return ask(self.stage.paths.hostd_socket, {"op": op, **members}, timeout=PATIENCE)

    def status(self, daemon: str) -> Mapping[str, Any]:
        paths = self.stage.paths
        path = paths.hostd_socket if daemon == "hostd" else paths.broker_admin_socket
        return ask(path, {"op": "status"}, timeout=PATIENCE)

    def pid(self, process: str) -> int:
        if process in ("launcher", "zygote"):
            return int(self.status("hostd")[process])
        return int(self.status(process)["pid"])

    def kill(self, process: str, number: int = signal.SIGKILL) -> int:
        pid = self.pid(process)
        kill_and_wait(pid, number)
        self._reap()
        return pid

    def up(self) -> None:
        """What `hostctl up` does, with a hostd that stands still where a test says so."""
        paths = self.stage.paths
        self._reap()
        if not self._answers("broker"):
            self.stage.daemons.append(start_daemon("broker", paths, timeout=PATIENCE))
        if not self._answers("hostd"):
            self.stage.daemons.append(self.stands_still.start(paths))

    def _answers(self, daemon: str) -> bool:
        """False when nobody listens; one that is only slow is waited for."""
        try:
            return bool(self.status(daemon).get("healthy", True))
        except Failure as failure:
            assert failure.code == "C103", failure
            return False

    def down(self) -> None:
        self.stage.hostctl("down", "--force", timeout=PATIENCE).expect_success("down")
        self._reap()

    def _reap(self) -> None:
        """Those that this process started are its children until it asks for them."""
        for daemon in self.stage.daemons:
            daemon.process.poll()

    # Sandboxes

    def items(self) -> dict[str, dict[str, Any]]:
        return {str(item["name"]): item for item in items_of(self.ask("ls"))}

    def inspect(self, name: str) -> Mapping[str, Any]:
        return self.ask("inspect", sandbox=name)

    def begin_run(self, *words: str, name: str | None = None) -> subprocess.Popen[bytes]:
        scope = ("--repo", self.stage.url(ALLOWED), "--name", name or new_name())
        return self.stage.begin("run", *scope, *words)

    @contextmanager
    def box(
        self,
        *words: str,
        command: tuple[str, ...] = ("sleep", "infinity"),
        repo: str | None = ALLOWED,
    ) -> Iterator[Box]:
        """A sandbox that runs `command`; removed in the end if it is still there."""
        name = new_name()
        scope = ("--name", name, *(("--repo", self.stage.url(repo)) if repo else ()))
        ran = self.stage.hostctl("run", "-d", *scope, *words, "--", *command, timeout=PATIENCE)
        ran.expect_success("hostctl run")
        try:
            yield Box(self.stage, name)
        finally:
            with suppress(Failure):
                self.ask("rm", sandbox=name, force=True)

    @contextmanager
    def guarded_box(self) -> Iterator[tuple[Box, Sentinel]]:
        """An agent's sandbox that tries all the time what must never work."""
        with self.box("--agent", "--push", "agent/**", command=SENTINEL) as box:
            identifier = str(self.inspect(box.name)["sandbox"])
            home = self.state(identifier) / "home"
            yield box, Sentinel(home / "sentinel.json")

    # What the disk knows

    @property
    def sandboxes(self) -> Path:
        return self.stage.paths.hostd_state / "sandboxes"

    def state(self, identifier: str) -> Path:
        return self.sandboxes / identifier

    def step(self, identifier: str) -> str | None:
        """The step on disk, or None without a record."""
        try:
            step: str = json.loads((self.state(identifier) / "state.json").read_text())["step"]
        except (FileNotFoundError, ValueError):
            return None
        return step

    def known(self) -> set[str]:
        return set(os.listdir(self.sandboxes))

    def stopped_at(self, step: str, count: int = 1) -> AbstractContextManager[Stop]:
        """In the block hostd stands still once a sandbox has come to the step."""
        return self.stands_still.armed(step, count)

    def audit(self, code: str) -> list[dict[str, Any]]:
        """hostd's records with a code."""
        lines = self.stage.paths.hostd_audit.read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if entry.get("code") == code]

    def sessions(self) -> dict[str, str]:
        """Session → name of its sandbox, of those that have not ended."""
        answer = ask(self.stage.paths.broker_admin_socket, {"op": "session-ls"}, timeout=PATIENCE)
        return {
            str(one["session"]): str(one["name"])
            for one in items_of(answer)
            if one["state"] != "ended"
        }


def new_name() -> str:
    return f"f-{uuid.uuid4().hex[:10]}"


def git_works(box: Box) -> None:
    """Both ways: the command's own git, and the gate's."""
    box.run("git", "-C", "/workspace", "ls-remote", "origin").expect_success("git ls-remote")
    box.git("fetch").expect_success("hostctl git fetch")


@contextmanager
def watched(stage: Gitmoat) -> Iterator[Machine]:
    world = Machine(stage)
    with stage.paths.hostd_toml.open("a") as file:
        file.write(WATCHDOG)
    world.kill("hostd", signal.SIGTERM)
    world.up()
    try:
        yield world
    finally:
        world.stands_still.close()
