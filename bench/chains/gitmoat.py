"""Ours: real sandboxes with their sidecars, and a broker that demands what it always demands.

Only limits are raised, which are there so that no sandbox does what a benchmark does.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from bench.chains.way import OURS, Door, Way
from bench.upstream import USER, Upstream
from hostctl.setup.daemons import clean_environment
from tests.stage.command import Ran, command
from tests.stage.instance import Instance, make_instance

DISK, MEMORY = "/tmp", "/dev/shm"
_TIMEOUT = 120.0
POLICY = """\
version = 1
name = "bench"
[[git]]
id = "all"
repos = ["bench:**"]
fetch = true
push = { branches = ["**"], create = true, update = true }
who = ["helper", "untrusted"]
[limits]
git_requests_per_minute = 1000000
git_concurrency = 1000
push_max = "64GiB"
fetch_max = "64GiB"
session_max = "1TiB"
"""
_LIMITS = """
[limits]
requests_per_minute = 1000000
host_requests_per_minute = 1000000
credential_requests_per_minute = 1000000
"""


@frozen
class Box:
    sidecar: int
    door: Door


@contextmanager
def installed(
    upstream: Upstream, directory: str = DISK, limits: str = _LIMITS
) -> Iterator[Instance]:
    """An installation of its own, up, that knows the upstream and its password."""
    instance = make_instance(directory)
    try:
        paths = instance.paths
        with paths.broker_toml.open("a") as file:
            file.write(limits)
        (paths.policies / "bench.toml").write_text(POLICY)
        ca_file = paths.etc / "bench-ca.pem"
        ca_file.write_bytes(upstream.authority.ca.read_bytes())
        hostctl(instance, "up")
        user = ("--stdin", "--username", USER)
        hostctl(instance, "cred", "add", "bench", *user, stdin=upstream.password + "\n")
        url = f"https://localhost:{upstream.port}"
        server = ("--url", url, "--ca-file", str(ca_file), "--cred", "bench")
        hostctl(instance, "upstream", "add", "bench", *server)
        yield instance
    finally:
        instance.remove()


def hostctl(instance: Instance, *words: str, stdin: str = "") -> str:
    """What it prints; raises when it fails."""
    done = subprocess.run(
        command(instance.root, *words),
        input=stdin.encode(),
        capture_output=True,
        env=clean_environment(),
        timeout=_TIMEOUT,
        start_new_session=True,
        check=False,
    )
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    return ran.expect_success(f"hostctl {words[0]}")


def start(instance: Instance, upstream: Upstream, boxes: int, name: str = OURS) -> Way:
    """So many sandboxes; the first is the one that most rows use."""
    made = [make_box(instance, f"bench-{number}") for number in range(boxes)]
    hops = {"sidecar": made[0].sidecar, "broker": instance.status()["broker"]["pid"]}
    base = f"http://127.0.0.1:419/localhost:{upstream.port}"
    return Way(name, base, hops, tuple(box.door for box in made))


def make_box(instance: Instance, name: str) -> Box:
    words = ("run", "-d", "--name", name, "--policy", "bench", "--", "sleep", "infinity")
    hostctl(instance, *words)
    about = json.loads(hostctl(instance, "--json", "inspect", name))
    door = Door(f"/proc/{about['pid']}/ns/net", about["uids"]["untrusted"])
    return Box(about["sidecar"]["pid"], door)
