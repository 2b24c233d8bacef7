"""A broker as its own process, as `hostctl up` starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gitmoat.identity.control_socket import connect_control
from tests.fakes.broker_world import World
from tests.waiting import PATIENCE, ends_with_its_test

# Tells of every module that is loaded after the uid was dropped.
_WATCHED = """
import os, runpy, sys
def watch(event, args):
    if event == "import" and os.getuid() != 0:
        os.write(2, b"LATE IMPORT " + str(args[0]).encode() + b"\\n")
sys.addaudithook(watch)
sys.argv[0] = "broker"
runpy.run_module("broker", run_name="__main__", alter_sys=True)
"""


# Kills itself, as a power cut would, before or after one call that a test names.
_DYING = """
import importlib, os, runpy, signal, sys
place, name, when = {step!r}
owner = importlib.import_module(place)
*path, last = name.split(".")
for one in path:
    owner = getattr(owner, one)
call = getattr(owner, last)
def die(*given, **named):
    if when == "after":
        done = call(*given, **named)
        if hasattr(done, "send"):
            try:
                done.send(None)
            except StopIteration:
                pass
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, last, die)
sys.argv[0] = "broker"
runpy.run_module("broker", run_name="__main__", alter_sys=True)
"""


class ProcessWorld(World):
    """The same world with the broker in another process, under its own uid if we are root."""

    process: subprocess.Popen[bytes]
    step: tuple[str, str, str] | None = None  # module, call, before or after: there it dies

    def launch(self, watched: bool = False) -> bytes:
        """Starts it and returns the line it says when ready, or not."""
        ready, far = os.pipe()
        program = ["-c", _WATCHED] if watched else ["-m", "broker"]
        if self.step is not None:
            program = ["-c", _DYING.format(step=self.step)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *program, "--root", str(self.paths.root), "--ready-fd", str(far)],
                cwd=Path(__file__).parents[2],
                env={"PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(far,),
            )
        ends_with_its_test(self.process)
        os.close(far)
        with os.fdopen(ready, "rb") as answer:
            return answer.read()

    @property
    def log(self) -> Path:
        return self.paths.root / "broker.log"

    def start(self) -> None:
        assert self.launch() == b"ready\n", self.log.read_text()
        self.learn()

    def learn(self) -> None:
        status = self.admin("status")
        self.audience = status["key"]
        self.port = int(status["address"].rpartition(":")[2])

    def admin(self, op: str, **fields: Any) -> dict[str, Any]:
        path = self.paths.broker_admin_socket
        with connect_control(path, os.geteuid(), root=self.paths.root) as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer

    def status_of(self, key: str) -> str:
        """A line of /proc/PID/status."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (found,) = (line for line in text.splitlines() if line.startswith(f"{key}:"))
        return found.partition(":")[2].strip()

    def end(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
