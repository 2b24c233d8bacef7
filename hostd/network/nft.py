"""Loads a rendered ruleset into a sandbox's network namespace, in one transaction."""

from __future__ import annotations

import shutil

from hostd.failures import Failed
from hostd.process.programs import Programs
from hostd.process.requests import Command, Join
from netpolicy.nftables import ruleset_hash

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def find_program(name: str) -> str:
    found = shutil.which(name, path=_SYSTEM_PATH)
    if found is None:
        raise Failed("R102", f"{name} is not installed", fix=f"apt-get install {_PACKAGE[name]}")
    return found


def tool(name: str, *arguments: str, join: Join | None = None) -> Command:
    """One of the host's own programs, as root, in the namespaces of `join` or in the host's."""
    return Command(argv=(find_program(name), *arguments), environment={}, room=join)


_PACKAGE = {"nft": "nftables", "bwrap": "bubblewrap", "git": "git"}


async def apply_ruleset(programs: Programs, network: Join, ruleset: str) -> str:
    """Loads the rules in one transaction (nft(8), -f); returns the hash of the kernel's listing."""
    nft = tool("nft", "-f", "-", join=network)
    finished = await programs.run(nft, ruleset.encode("ascii"))
    if finished.status != 0:
        raise Failed("N102", "the network rules were not accepted", why=finished.why())
    return await loaded_hash(programs, network)


async def loaded_hash(programs: Programs, network: Join) -> str:
    """The hash of the kernel's listing. Versions of nft spell it differently, but on one host it
    stays the same."""
    finished = await programs.run(tool("nft", "list", "ruleset", join=network))
    if finished.status != 0:  # nft was killed or had no memory: the rules may be as they were
        raise Failed("R101", "nft did not list the network rules", why=finished.why())
    if not finished.output.strip():
        raise Failed("N102", "the network rules cannot be read", why="there are none")
    # Our rules are ASCII. Others do not fail here, but have another hash.
    return ruleset_hash(finished.output.decode("utf-8", "replace"))
