"""A network namespace in which our rules are loaded, and programs that try them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from attrs import define, field

from netpolicy.nftables import Uids, render
from tests.waiting import PATIENCE, ends_with_its_test

SIDE, HELP, UNTR, OTHER, ROOT = 2000000000, 2000000001, 2000000002, 2000000003, 0
DIGEST = "5" * 64
UIDS = Uids(sidecar=SIDE, helper=HELP, untrusted=UNTR)
PROBE = [sys.executable, "-IS", str(Path(__file__).with_name("netns_probe.py"))]
LOOPBACK = "127.0.0.1"


@define(eq=False)
class Namespace:
    """A network namespace with `lo` up, and the processes that were started in it."""

    _started: list[subprocess.Popen[str]] = field(factory=list)

    def open(self) -> Namespace:
        self._start(
            "unshare", "-n", "sh", "-c", "ip link set lo up; echo ready; exec sleep infinity"
        )
        return self

    def close(self) -> None:
        for process in reversed(self._started):
            process.kill()
            process.communicate()

    @property
    def path(self) -> str:
        return f"/proc/{self._started[0].pid}/ns/net"

    def run(self, *argv: str, text: str = "") -> str:
        command = ["nsenter", f"--net={self.path}", "--", *argv]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def load(self, digest: str = DIGEST) -> None:
        self.run("nft", "-f", "-", text=render(UIDS, digest))

    def listen(self, uid: int, address: str, *ports: int) -> subprocess.Popen[str]:
        return self._probe("listen", uid, address, *ports)

    def watch(self, interface: str) -> subprocess.Popen[str]:
        return self._probe("watch", interface)

    def ask(
        self, uid: int, address: str, port: int, kind: str = "tcp", seconds: float = PATIENCE
    ) -> str:
        words = (str(uid), kind, address, str(port), str(seconds))
        return self.run(*PROBE, "ask", *words).strip()

    def ask_in_vain(self, uid: int, address: str, port: int, kind: str = "tcp") -> bool:
        """Nothing comes back, not even a refusal."""
        return self.ask(uid, address, port, kind, seconds=1.0) == "timeout"

    def _probe(self, *words: object) -> subprocess.Popen[str]:
        return self._start("nsenter", f"--net={self.path}", "--", *PROBE, *map(str, words))

    def _start(self, *argv: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        self._started.append(ends_with_its_test(process))
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process
