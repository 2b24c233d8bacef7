"""Other hosts from inside a sandbox, against programs that do one part of it on the host.

Ours is two hops and TLS between them; tinyproxy is one hop, dnsmasq a resolver in C.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from tests.live.internet import WEB, Internet, NetBox, open_box, open_internet

PACKAGES = {"tinyproxy": "tinyproxy-bin", "dnsmasq": "dnsmasq-base"}
_MIB = 256
_QUESTIONS = 20000
_ROUNDS = 5
# Prints how long it took by itself: starting a command in a sandbox is not what is measured.
_ASK = r"""
import socket, struct, sys, time
port, count = int(sys.argv[1]), int(sys.argv[2])
question = b"\3web\7example\0\0\1\0\1"
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(5)
client.connect(("127.0.0.1", port))
sent = heard = 0
begun = time.perf_counter()
while heard < count:
    while sent < count and sent - heard < 64:
        client.send(struct.pack("!6H", sent & 65535, 0x100, 1, 0, 0, 0) + question)
        sent += 1
    client.recv(512)
    heard += 1
print(time.perf_counter() - begun)
"""
_FETCH = ("curl", "-sSk", "-o", "/dev/null", "-w", "%{time_total}")


@frozen
class Compared:
    name: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def missing() -> list[str]:
    return [package for program, package in PACKAGES.items() if shutil.which(program) is None]


def compare() -> list[Compared]:
    with open_internet() as internet, _peers(internet), open_box(internet) as box:
        with (internet.www / "big").open("wb") as big:
            big.truncate(_MIB << 20)
        return [
            _compared(f"CONNECT, {_MIB} MiB / tinyproxy", *_downloads(internet, box)),
            _compared(f"DNS, {_QUESTIONS} questions / dnsmasq", *_questions(internet, box)),
        ]


def _compared(name: str, ours: Callable[[], float], theirs: Callable[[], float]) -> Compared:
    pairs = [(ours(), theirs()) for _ in range(_ROUNDS)]
    medians = [statistics.median(each) for each in zip(*pairs, strict=True)]
    return Compared(name, *medians)


def _downloads(internet: Internet, box: NetBox) -> tuple[Callable[[], float], Callable[[], float]]:
    proxied = (*_FETCH, "-x", "http://127.0.0.1:8888", f"https://{WEB}/big")
    return (
        lambda: float(box.run(*_FETCH, "https://web.example/big").expect_success("curl")),
        lambda: float(internet.host.run(*proxied)),
    )


def _questions(internet: Internet, box: NetBox) -> tuple[Callable[[], float], Callable[[], float]]:
    ours = ("python3", "-c", _ASK, "53", str(_QUESTIONS))
    theirs = (sys.executable, "-c", _ASK, "5300", str(_QUESTIONS))
    return (
        lambda: float(box.run(*ours).expect_success("questions")),
        lambda: float(internet.host.run(*theirs)),
    )


@contextmanager
def _peers(internet: Internet) -> Iterator[None]:
    """The others, in the network namespace of the host."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "tinyproxy.conf")
        config.write_text("Port 8888\nListen 127.0.0.1\nLogLevel Error\nConnectPort 443\n")
        dnsmasq: tuple[str, ...] = (
            "dnsmasq",
            "-k",
            "-p",
            "5300",
            "--listen-address=127.0.0.1",
            "--no-resolv",
        )
        dnsmasq += ("--bind-interfaces", "--no-hosts", "--conf-file=/dev/null", "--user=root")
        commands = [
            ("tinyproxy", "-d", "-c", str(config)),
            (*dnsmasq, "--address=/web.example/198.18.0.5"),
        ]
        quiet = subprocess.DEVNULL
        started = [
            subprocess.Popen(internet.host.words(*each), stdout=quiet, stderr=quiet)
            for each in commands
        ]
        time.sleep(1)
        try:
            yield
        finally:
            for process in started:
                process.kill()
                process.wait()
