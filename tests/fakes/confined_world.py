"""A sidecar in a process of its own, forked and confined as on a host."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from pathlib import Path

from netpolicy.format.document import parse_policy, policy_to_mapping
from tests.fakes.sidecar_scope import POLICY_TEXT, config_bytes
from tests.fakes.sidecar_world import BROKER_SEED, Hostd, World, public
from tests.stage.sources import ROOT
from tests.waiting import ends_with_its_test

POLICY = parse_policy(
    POLICY_TEXT
    + '[[egress]]\nid = "web"\nhosts = ["web.example"]\n'
    + '[[egress]]\nid = "plain"\nhosts = ["web.example"]\nscheme = "http"\n'
)


class ConfinedWorld(World):
    """The sidecar is a process of its own; broker and hostd stay on the test's loop."""

    files = 512

    def _launch(self, fds: dict[str, int]) -> None:
        numbers = list(fds.values())
        empty = self.folder / "empty"
        empty.mkdir()
        entry = [sys.executable, "-m", "tests.fakes.confined_sidecar"]
        arguments = [str(empty), str(self.files), "61001", *map(str, numbers)]
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*entry, *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=numbers,
            )
        ends_with_its_test(self.process)
        for number in numbers:
            os.close(number)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(
            config_bytes(
                broker_keys=[base64.b64encode(public(BROKER_SEED)).decode()],
                policy=policy_to_mapping(POLICY),
            )
        )
        self.process.stdin.close()
        self.pid = int(self.process.stdout.readline())

    def start(self) -> Hostd:
        hostd = Hostd(self)
        self.loop.turn_until(lambda: bool(hostd.messages))
        self.broker.admitted = frozenset({hostd.messages[0][1:]})
        hostd.send("activate")
        self.loop.turn_until(lambda: self.broker.open == 2)
        return hostd

    def stop(self) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()
        assert "late import" not in self.log.read_text(), self.log.read_text()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.broker.kill()
        self.broker.close()
        self.loop.settle()
        for reader in list(self.loop.readers | self.loop.writers):
            reader.close()

    def status(self, name: str) -> str:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(name))
