"""A way from a client to the upstream."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import field, frozen

from bench.authority import Authority
from bench.processes import Programs, family
from bench.upstream import Upstream

DIRECT = "direct"
OURS = "gitmoat"
# Where a request waits for the disk, because the audit is written before the act.
IN_MEMORY = "gitmoat, audit in memory"
# Nobody's number: clients on the host run as it, and own what they clone.
CLIENT_UID = 1999000001


@frozen
class Setting:
    """What every chain is built from. `directory` is its own."""

    programs: Programs
    authority: Authority
    upstream: Upstream
    directory: Path


@frozen
class Door:
    """Where a client stands: a network namespace and a uid."""

    netns: str = "/proc/self/ns/net"
    uid: int = CLIENT_UID

    def words(self, *command: str) -> list[str]:
        who = (f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups")
        return ["nsenter", f"--net={self.netns}", "--", "setpriv", *who, "--", *command]


@frozen
class Way:
    """`base` stands before the path of a repository; `hops` are pids by name of the hop."""

    name: str
    base: str
    hops: dict[str, int] = field(factory=dict)
    doors: tuple[Door, ...] = (Door(),)
    ca: Path | None = None
    authorization: str = ""
    header_file: Path | None = None

    def url(self, repository: str) -> str:
        return f"{self.base}/{repository}.git"

    def words(self, *command: str) -> list[str]:
        return self.doors[0].words(*command)

    def pids(self) -> dict[str, list[int]]:
        return {name: family(pid) for name, pid in self.hops.items()}

    def all_pids(self) -> list[int]:
        return [pid for pids in self.pids().values() for pid in pids]


def direct(upstream: Upstream, directory: Path) -> Way:
    """TLS from the client itself, which knows the password."""
    header_file = directory / "authorization"
    header_file.write_text(f"Authorization: {upstream.authorization}\n")
    os.chown(header_file, CLIENT_UID, CLIENT_UID)
    header_file.chmod(0o400)
    return Way(
        DIRECT,
        f"https://localhost:{upstream.port}",
        ca=upstream.authority.ca,
        authorization=upstream.authorization,
        header_file=header_file,
    )
