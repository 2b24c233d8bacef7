"""git's suite, run twice: against its own Apache, and through a sidecar and a broker to it."""

from __future__ import annotations

import os
import random
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from attrs import define, field, frozen

from tests.peers.forwarder import forwarder
from tests.peers.git_suite.scripts import UID, Said, run
from tests.peers.git_suite.tree import Tree
from tests.stage.boxes import start_box
from tests.stage.gitmoat import Gitmoat, opened

AT_A_TIME = 2
# lib-httpd/passwd of git's suite: nothing secret, and no credential of ours.
USER, PASSWORD = "user@host", "pass@host"
POLICY = """\
version = 1
name = "all"
[session]
ttl = "24h"
idle = "24h"
[limits]
git_requests_per_minute = 1000000
git_concurrency = 1000
push_max = "1TiB"
fetch_max = "1TiB"
session_max = "1TiB"
free_refusals = 1000000
[[git]]
id = "all"
repos = [{repos}]
fetch = true
push = {{ branches = ["**"], tags = ["**"], refs = [{refs}], delete = true, options = true }}
who = ["untrusted"]
"""
_DIRECT_TRIES = 3
# Which names beside branches and tags a rule takes in must be spelled.
_REFS = ("for", "for-review", "review", "notes", "changes", "remotes", "custom", "namespaces")


@frozen
class Both:
    direct: Said
    through: Said


@frozen
class Place:
    """A port for an Apache, the upstream that the broker knows it as, and a port for git daemon."""

    upstream: str
    port: int
    daemon_port: int


@define(eq=False)
class Suite:
    tree: Tree
    stage: Gitmoat
    root: Path
    environment: Mapping[str, str]
    places: SimpleQueue[Place] = field(factory=SimpleQueue)
    results: dict[str, Future[Both]] = field(factory=dict)

    def both(self, script: str) -> Both:
        place = self.places.get()
        port = str(place.port)
        try:
            begun = time.monotonic()
            directly = {
                **self.environment,
                "LIB_HTTPD_PORT": port,
                "LIB_GIT_DAEMON_PORT": str(place.daemon_port),
            }
            direct = self._direct(script, directly)
            between = time.monotonic()
            box = start_box(self.stage, "--policy", "all", repo=None)
            try:
                with forwarder(box) as front:
                    by_us = {
                        **directly,
                        "LIB_HTTPD_THROUGH": f"127.0.0.1:{front}",
                        "LIB_HTTPD_PEM": str(self.root / "apache.pem"),
                    }
                    through = run(self.tree, script, self.root / f"{script}-t", by_us)
            finally:
                box.remove()
            ended = time.monotonic()
            print(f"{script}: {between - begun:.0f} s, through us {ended - between:.0f} s")
            return Both(direct, through)
        finally:
            self.places.put(place)

    def _direct(self, script: str, environment: Mapping[str, str]) -> Said:
        """What fails without us says nothing of us: it is tried again. curl's HTTP/2 and Apache's
        fail together now and then, where a request is answered before all of it was read."""
        for number in range(_DIRECT_TRIES):
            said = run(self.tree, script, self.root / f"{script}-d{number}", environment)
            if said.whole and all(point.result != "failed" for point in said.points):
                break
        return said


def lasting_port() -> int:
    """Free, and not one of those that the kernel gives to connections: it is needed again and
    again, with times between at which nobody holds it."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextmanager
def running(tree: Tree, scripts: Sequence[str], environment: Mapping[str, str]) -> Iterator[Suite]:
    """Begins with all of them, two at a time."""
    with opened() as stage, tempfile.TemporaryDirectory(prefix="gm-suite-") as directory:
        root = Path(directory)
        root.chmod(0o755)
        made = Suite(tree, stage, root, environment)
        tls = stage.upstream.directory / "tls"
        pem = root / "apache.pem"
        pem.touch(mode=0o600)
        os.chown(pem, UID, UID)
        pem.write_bytes((tls / "cert.pem").read_bytes() + (tls / "key.pem").read_bytes())
        added = stage.hostctl(
            "cred", "add", "git", "--stdin", "--username", USER, stdin=PASSWORD + "\n"
        )
        added.expect_success("adding the credential")
        for number in range(AT_A_TIME):
            place = Place(f"apache{number}", lasting_port(), lasting_port())
            stage.hostctl(
                *("upstream", "add", place.upstream, "--url", f"https://localhost:{place.port}"),
                *("--ca-file", str(stage.paths.etc / "demo-ca.pem"), "--cred", "git"),
            ).expect_success("adding the upstream")
            made.places.put(place)
        repos = ", ".join(f'"apache{number}:**"' for number in range(AT_A_TIME))
        refs = ", ".join(f'"refs/{name}/**"' for name in _REFS)
        (stage.paths.policies / "all.toml").write_text(POLICY.format(repos=repos, refs=refs))
        pool = ThreadPoolExecutor(AT_A_TIME)
        try:
            for script in scripts:
                made.results[script] = pool.submit(made.both, script)
            yield made
        finally:
            pool.shutdown(cancel_futures=True)
