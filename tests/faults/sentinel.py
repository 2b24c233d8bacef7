"""A command that tries, as long as its sandbox lives, to get out and to take a sidecar's port."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

from tests.waiting import eventually

_SOURCE = """
import json, os, socket, time

violations, rounds = [], 0

def must_fail(what, attempt):
    try:
        attempt()
    except OSError:
        return
    violations.append(what)

def bind(kind, port):
    with socket.socket(socket.AF_INET, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))

def connect(address, port):
    with socket.socket() as s:
        s.settimeout(0.5)
        s.connect((address, port))

def send(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", (address, port))

while True:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for port in (418, 419, 53):
            must_fail(f"bind {port}", lambda: bind(kind, port))
    for where in (("203.0.113.5", 443), ("169.254.169.254", 80), ("127.0.0.1", 418)):
        must_fail(f"connect {where}", lambda: connect(*where))
    must_fail("udp", lambda: send("203.0.113.53", 53))
    rounds += 1
    with open("sentinel.new", "w") as file:
        json.dump([rounds, violations[:20]], file)
    os.replace("sentinel.new", "sentinel.json")
    time.sleep(0.02)
"""
SENTINEL = ("/usr/bin/python3", "-I", "-c", "import os; os.chdir('/home/sandbox')" + _SOURCE)


@frozen
class Sentinel:
    file: Path

    def rounds(self) -> int:
        return self._read()[0]

    def assert_held(self) -> None:
        """It still tries, and nothing it tried has ever worked."""
        before = self.rounds()
        eventually(lambda: self.rounds() >= before + 2, "the sentinel to go on")
        assert self._read()[1] == []

    def _read(self) -> tuple[int, list[str]]:
        eventually(self.file.exists, "the sentinel to start")
        rounds, violations = json.loads(self.file.read_text())
        return rounds, violations
