"""Other hosts from inside a sandbox, against programs that do one part of it on the host.

Ours is two hops, TLS between them, a decision by name; squid is one hop, so one of our
hops alone is beside it too; through that one go plain bytes, or the client's and the server's
TLS would be what is measured. dnsmasq, a resolver in C, is asked where ours is: in the sandbox, by
the same client, under the same rules.
The server is nginx in a network namespace of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench.chains.way import OURS
from bench.figures import Book
from bench.nginx import beginning
from tests.stage.internet import POLICY, WEB, Internet, NetBox, open_box, open_internet

PEERS = ("squid", "dnsmasq")
_PORT, _PLAIN = 9443, 9080  # of nginx: others at that address are the tests' own
_SQUID = 3128
_ONE_HOP = 8890
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


def measure(book: Book, there: set[str], mib: int, questions: int, rounds: int) -> None:
    peers = [name for name in PEERS if name in there]
    with (
        open_internet() as internet,
        _running(internet, "squid" in peers),
        open_box(internet, _policy(internet)) as box,
        _dnsmasq(internet, box) if "dnsmasq" in peers else nullcontext(),
    ):
        with (internet.www / "big").open("wb") as big:
            big.truncate(mib << 20)
        asked = {OURS: _in_sandbox(box, 53, questions)}
        if "dnsmasq" in peers:
            asked["dnsmasq"] = _in_sandbox(box, 5300, questions)
        fetched = {"direct": _through(internet), OURS: _ours(box)}
        one_hop = {OURS: _plainly(internet, _ONE_HOP)}
        if "squid" in peers:
            fetched["squid"] = _through(internet, "-x", f"http://127.0.0.1:{_SQUID}")
            one_hop["squid"] = _plainly(internet, _SQUID)
        for number in range(rounds + 1):
            for row, ways, amount, unit in (
                ("CONNECT", fetched, mib * 1.048576, "MB/s"),
                ("CONNECT, one hop", one_hop, mib * 1.048576, "MB/s"),
                ("DNS", asked, questions, "answers/s"),
            ):
                for name, run in ways.items():
                    value = amount / run()
                    if number:
                        book.add(row, name, unit, value)


def _policy(internet: Internet) -> str:
    text = POLICY.replace('name = "net"', 'name = "speed"').replace("[443, 8443]", f"[{_PORT}]")
    (internet.instance.paths.policies / "speed.toml").write_text(text)
    return "speed"


def _ours(box: NetBox) -> Callable[[], float]:
    words = (*_FETCH, f"https://web.example:{_PORT}/big")
    return lambda: float(box.run(*words).expect_success("curl"))


def _through(internet: Internet, *words: str) -> Callable[[], float]:
    command = (*_FETCH, *words, f"https://{WEB}:{_PORT}/big")
    return lambda: float(internet.host.run(*command))


def _plainly(internet: Internet, port: int) -> Callable[[], float]:
    command = (*_FETCH, "-p", "-x", f"http://127.0.0.1:{port}", f"http://{WEB}:{_PLAIN}/big")
    return lambda: float(internet.host.run(*command))


def _in_sandbox(box: NetBox, port: int, questions: int) -> Callable[[], float]:
    words = ("python3", "-c", _ASK, str(port), str(questions))
    return lambda: float(box.run(*words).expect_success("questions"))


@contextmanager
def _dnsmasq(internet: Internet, box: NetBox) -> Iterator[None]:
    """As the sandbox's own command: any port but the sidecar's is free to it."""
    about = json.loads(internet.hostctl("--json", "inspect", box.name).out)
    uid = str(about["uids"]["untrusted"])
    there = ("nsenter", f"--net=/proc/{about['pid']}/ns/net", "--")
    words = ("-p", "5300", "--listen-address=127.0.0.1", "--no-resolv", "--no-hosts", "--pid-file=")
    more = ("--bind-interfaces", "--conf-file=/dev/null", "--address=/web.example/198.18.0.5")
    process = subprocess.Popen(
        [
            *(*there, "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"),
            *("dnsmasq", "-k", *words, *more),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(1)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _running(internet: Internet, squid: bool) -> Iterator[None]:
    """The others, in the network namespace of the host; the web server outside."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        nginx = internet.outside.words(*_nginx(internet, place))
        one_hop = internet.host.words(sys.executable, "-m", "bench.one_hop", str(_ONE_HOP))
        commands = [nginx, one_hop]
        if squid:
            commands.append(internet.host.words(*_squid(place)))
        quiet = subprocess.DEVNULL
        started = [subprocess.Popen(each, stdout=quiet, stderr=quiet) for each in commands]
        time.sleep(3)  # squid is slow to start
        for process, words in zip(started, commands, strict=True):
            if process.poll() is not None:
                raise RuntimeError(f"it did not start: {' '.join(words)}")
        try:
            yield
        finally:
            for process in started:
                process.terminate()
                process.wait()


def _nginx(internet: Internet, place: Path) -> tuple[str, ...]:
    config = place / "nginx.conf"
    tls = internet.authority.parent
    config.write_text(f"""
{beginning(place)}
  output_buffers 4 128k;
  server {{
    listen {WEB}:{_PORT} ssl;
    listen {WEB}:{_PLAIN};
    ssl_certificate {tls}/cert.pem;
    ssl_certificate_key {tls}/key.pem;
    root {internet.www};
  }}
}}
""")
    return ("nginx", "-p", str(place), "-c", str(config), "-g", "daemon off;")


def _squid(place: Path) -> tuple[str, ...]:
    config = place / "squid.conf"
    config.write_text(
        f"http_port 127.0.0.1:{_SQUID}\nhttp_access allow all\ncache deny all\n"
        f"access_log none\ncache_log {place}/squid.log\npid_filename {place}/squid.pid\n"
        f"visible_hostname bench\ncoredump_dir {place}\nshutdown_lifetime 0 seconds\n"
    )
    place.chmod(0o777)  # it becomes a user of its own
    return ("squid", "-N", "-f", str(config))
