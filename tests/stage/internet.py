"""A whole Gitmoat in a network namespace whose only neighbour is an internet made by the test.

203.0.113.0/24 is the internet; what the broker asks and dials is in the internet's log, and what
leaves the host at all is counted at its interface.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import trustme
from attrs import define, frozen

from gitmoat.confine import linux
from tests.stage.command import Ran, run_hostctl
from tests.stage.instance import Instance, make_instance
from tests.waiting import PATIENCE, eventually

_NETWORK = 0x40000000
_OVER = ("06", "07", "0A")  # TIME_WAIT, CLOSE, LISTEN
OURS = "203.0.113.200"
RESOLVER = "203.0.113.53"
WEB = "203.0.113.5"
INSIDE = "10.99.0.5"
NAMES = {
    "dns.example": RESOLVER,
    "web.example": WEB,
    "a.cdn.example": WEB,
    "logs.cdn.example": WEB,
    "other.example": "203.0.113.6",
    "evil.example": "203.0.113.66",
    "git.example": "203.0.113.7",
    "inside.example": INSIDE,
    "wiki.example": INSIDE,
    "loop.example": "127.0.0.1",
    "metadata.example": "169.254.169.254",
    "ours.example": OURS,
    "synthetic.example": "198.18.0.5",
}
POLICY = """\
version = 1
name = "net"
[limits]
egress_per_minute = 100000
[[egress]]
id = "web"
hosts = ["web.example", "*.cdn.example", "loop.example", "metadata.example", "ours.example",
         "synthetic.example", "wiki.example", "nowhere.example"]
ports = [443, 8443]
[[egress]]
id = "plain"
hosts = ["web.example"]
scheme = "http"
[[egress]]
id = "inside"
hosts = ["inside.example"]
allow_private = true
[[egress]]
id = "no-logs"
effect = "deny"
hosts = ["logs.cdn.example"]
"""


@define(eq=False)
class Namespace:
    """A network namespace that lives as long as its first process."""

    _holder: subprocess.Popen[bytes]

    @classmethod
    def make(cls) -> Namespace:
        script = "ip link set lo up; echo ready; exec sleep infinity"
        holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        return cls(holder)

    @property
    def pid(self) -> int:
        return self._holder.pid

    def words(self, *argv: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *argv]

    def run(self, *argv: str) -> str:
        done = subprocess.run(self.words(*argv), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Whatever this thread starts meanwhile is in it."""
        with open("/proc/thread-self/ns/net") as own, open(f"/proc/{self.pid}/ns/net") as other:
            linux.setns(other.fileno(), _NETWORK)
            try:
                yield
            finally:
                linux.setns(own.fileno(), _NETWORK)

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@frozen(eq=False)
class Internet:
    instance: Instance
    host: Namespace
    outside: Namespace
    log: Path
    www: Path
    authority: Path

    def hostctl(self, *words: str, stdin: str = "", timeout: float = PATIENCE) -> Ran:
        inside = tuple(self.host.words())
        return run_hostctl(self.instance.root, *words, stdin=stdin, timeout=timeout, inside=inside)

    def heard(self) -> list[dict[str, Any]]:
        """What reached the internet so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def packets(self) -> int:
        """How many have left the host, of any kind."""
        lines = self.host.run("cat", "/proc/net/dev").splitlines()
        counted = next(line for line in lines if line.strip().startswith("wan:"))
        return int(counted.partition(":")[2].split()[9])

    def quiet(self) -> int:
        """The same, once what is under way has come to its end: no connection is open."""
        eventually(lambda: not self._open(), "the end of every connection")
        before = -1
        while (now := self.packets()) != before:
            before = now
            time.sleep(0.4)
        return now

    def _open(self) -> list[str]:
        """Connections of the host to the internet, but those that only wait for their time."""
        lines = self.host.run("cat", "/proc/net/tcp").splitlines()[1:]
        ours = f"{int.from_bytes(socket.inet_aton(OURS), sys.byteorder):08X}:"
        found = (line.split() for line in lines)
        return [words[2] for words in found if words[1].startswith(ours) and words[3] not in _OVER]

    def audit(self) -> list[dict[str, Any]]:
        text = self.instance.paths.broker_audit.read_text()
        return [json.loads(line) for line in text.splitlines()]


@frozen(eq=False)
class NetBox:
    """A sandbox whose policy is `net`, with the authority's certificate in its workspace."""

    internet: Internet
    name: str
    workdir: Path

    def run(self, *argv: str, timeout: float = PATIENCE) -> Ran:
        return self.internet.hostctl("exec", self.name, "--", *argv, timeout=timeout)

    def sh(self, script: str, timeout: float = PATIENCE) -> Ran:
        return self.run("/bin/sh", "-c", script, timeout=timeout)

    def python(self, source: str, question: object = None, timeout: float = PATIENCE) -> Any:
        words = ("exec", "-i", self.name, "--", "/usr/bin/python3", "-I", "-c", source)
        ran = self.internet.hostctl(*words, stdin=json.dumps(question), timeout=timeout)
        assert ran.code == 0, ran.text
        return json.loads(ran.out)


def _connect(host: Namespace, outside: Namespace) -> None:
    near, far = "02:00:00:00:00:01", "02:00:00:00:00:02"
    veth = ("wan", "address", near, "type", "veth", "peer", "name", "far", "address", far)
    host.run("ip", "link", "add", *veth)
    host.run("ip", "link", "set", "far", "netns", str(outside.pid))
    host.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    outside.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    host.run("ip", "address", "add", f"{OURS}/24", "dev", "wan")
    host.run("ip", "link", "set", "wan", "up")
    outside.run("ip", "link", "set", "far", "up")
    for address in {each for each in NAMES.values() if each.startswith(("203.0.113.", "10."))}:
        if address != OURS:
            outside.run("ip", "address", "add", f"{address}/24", "dev", "far")
            _neighbour(host, address, far, "wan")
    host.run("ip", "route", "add", "10.99.0.0/24", "dev", "wan")
    _neighbour(outside, OURS, near, "far")


def _neighbour(there: Namespace, address: str, mac: str, device: str) -> None:
    """Known for good: a question for it would be a packet that nobody sent."""
    there.run("ip", "neigh", "replace", address, "lladdr", mac, "dev", device, "nud", "permanent")


def _certificates(directory: Path) -> tuple[Path, Path, Path]:
    authority = trustme.CA()
    issued = authority.issue_cert(*NAMES)
    names = directory / "ca.pem", directory / "cert.pem", directory / "key.pem"
    authority.cert_pem.write_to_path(str(names[0]))
    issued.private_key_pem.write_to_path(str(names[2]))
    names[1].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    return names


@frozen(eq=False)
class Surroundings:
    """A namespace for a Gitmoat, the internet beside it, and what that has heard."""

    host: Namespace
    outside: Namespace
    log: Path
    www: Path
    authority: Path

    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    with tempfile.TemporaryDirectory(prefix="gm-net-", dir="/tmp") as name, ExitStack() as held:
        directory = Path(name)
        directory.chmod(0o755)
        www = directory / "www"
        www.mkdir()
        (www / "hello").write_text("hello from outside\n")
        authority, certificate, key = _certificates(directory)
        log = directory / "log"
        log.touch()
        host, outside = (held.enter_context(closing(Namespace.make())) for _ in range(2))
        _connect(host, outside)
        program = str(Path(__file__).with_name("internet_server.py"))
        files = map(str, (log, www, certificate, key))
        server = held.enter_context(
            subprocess.Popen(
                outside.words(sys.executable, "-I", program, *files, json.dumps(NAMES)),
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        )
        held.callback(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield Surroundings(host, outside, log, www, authority)


@contextmanager
def open_internet(hostd: str = "") -> Iterator[Internet]:
    """`hostd` is added to hostd.toml."""
    with surroundings() as around, ExitStack() as held:
        instance = make_instance()
        held.callback(instance.remove)
        here = (around.host, around.outside, around.log, around.www, around.authority)
        made = Internet(instance, *here)
        _start(made, hostd)
        yield made
        made.hostctl("down", "--force", timeout=PATIENCE)


def _start(internet: Internet, hostd: str) -> None:
    paths = internet.instance.paths
    with paths.hostd_toml.open("a") as config:
        config.write(hostd)
    with paths.broker_toml.open("a") as config:
        config.write(f'\n[egress]\nresolvers = ["{RESOLVER}"]\n')
        config.write('[upstream.forge]\nurl = "https://git.example"\n')
        config.write('case_insensitive = true\nprovider = "none"\n')
        config.write('[provider.none]\ntype = "vault"\n')
    (paths.policies / "net.toml").write_text(POLICY)
    internet.hostctl("up").expect_success("hostctl up")


@contextmanager
def open_box(internet: Internet, policy: str = "net", *words: str) -> Iterator[NetBox]:
    name = f"n-{uuid.uuid4().hex[:8]}"
    workdir = Path(tempfile.mkdtemp(prefix="gm-work-", dir="/tmp"))
    (workdir / "ca.pem").write_bytes(internet.authority.read_bytes())
    os.chown(workdir, 65534, 65534)
    run = ("run", "-d", "--name", name, "--policy", policy, "--workdir", str(workdir), *words)
    internet.hostctl(*run, "--", "sleep", "infinity").expect_success("hostctl run")
    try:
        yield NetBox(internet, name, workdir)
    finally:
        internet.hostctl("rm", "--force", name)
