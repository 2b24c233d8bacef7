"""A container that others start: the options that it needs, and how it is found.

It is found by its network, which was prepared here; never by a name or a label: an image can set
labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostd.atomic_file import write_whole
from hostd.docker.containers import Containers, name_of
from hostd.failures import Failed
from hostd.sandbox.bwrap import RUN
from hostd.sandbox.environment import PLACES
from hostd.sandbox.sandbox import Sandbox
from hostd.this_host import Host
from hostd.verify.probe_runner import try_all
from hostd.verify.probes import deny

SEALING = (
    ("--cap-drop", "ALL"),
    ("--security-opt", "no-new-privileges"),
    ("--ipc", "private"),
    ("--cgroupns", "private"),
    ("--read-only",),
    ("--memory", "4g"),
    ("--pids-limit", "4096"),
    # Below --pids-limit, so that a fork at the limit fails early: see `process.commands`.
    ("--ulimit", "nproc=4080:4080"),
    ("--oom-score-adj", "500"),
)


def options_for(sandbox: Sandbox, seccomp: Path) -> list[list[str]]:
    """The options that `docker run` needs; each list is the words of one option."""
    uid = sandbox.plan.uids.untrusted
    run = sandbox.directories.run
    return [
        ["--network", f"container:{name_of(sandbox.plan.id, holder=True)}"],
        ["--user", f"{uid}:{uid}"],
        *(list(each) for each in SEALING),
        ["--security-opt", f"seccomp={seccomp}"],
        ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,uid={uid},gid={uid}"],  # noqa: S108
        ["--mount", f"type=bind,source={run},target={RUN},readonly"],
        ["--env", "HOME=/tmp"],
        *(["--env", f"{name}={value}"] for name, value in PLACES.items()),
    ]


async def find_prepared(
    containers: Containers, wanted: str, prepared: list[Sandbox]
) -> tuple[Sandbox, dict[str, Any]]:
    """The container, and the sandbox whose network it is in."""
    found = await containers.engine.inspect(wanted)
    network = found["HostConfig"].get("NetworkMode")
    for sandbox in prepared:
        if sandbox.holding is not None and network == f"container:{sandbox.holding.id}":
            return sandbox, found
    raise Failed(
        "R115",
        f"container {wanted} is not in a network that was prepared here",
        why=f"its network is {str(network)[:80]}",
        fix="hostctl attach --prepare NAME prints what to start it with",
    )


def refusal(problem: Failed, sandbox: Sandbox, seccomp: Path) -> Failed:
    """The failure, with all options of `docker run` that are needed, so that they can be copied."""
    if problem.code != "R115":
        return problem
    words = " ".join(word for option in options_for(sandbox, seccomp) for word in option)
    return Failed("R115", problem.what, why=problem.why, fix=f"docker run {words} IMAGE")


async def look_for_sockets(host: Host, sandbox: Sandbox) -> None:
    """Looks for sockets below what is mounted from the host or from a volume: a socket there leads
    to a process outside the sandbox. A process of the container's user looks, in the container:
    root walks no tree that others can write."""
    if sandbox.first is None:
        return
    places = host.containers.mount_check.shared(sandbox.first.pid)
    uid = sandbox.plan.uids.untrusted
    probe = deny("mounts", "a socket of the host", "untrusted", "sockets-below", places, uid)
    for result in await try_all(host, sandbox, [probe] if places else []):
        if not result.ok:
            raise Failed(
                "R115",
                "the container is not sealed",
                why=f"what is mounted in it leads to a socket of the host: {result.got}",
            )


def write_profile(path: Path, profile: Mapping[str, Any]) -> None:
    """Others start the container, so others can read the file."""
    write_whole(path, json.dumps(profile), 0o644)
