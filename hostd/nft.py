"""Loads a rendered ruleset into a sandbox's network namespace, in one transaction."""

from __future__ import annotations

import shutil

from hostd.failures import Failed
from hostd.messages import Command, Room
from hostd.programs import Programs
from netpolicy.nftables import ruleset_hash

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def find_program(name: str) -> str:
    found = shutil.which(name, path=_SYSTEM_PATH)
    if found is None:
        raise Failed("R102", f"{name} is not installed", fix=f"apt-get install {_PACKAGE[name]}")
    return found


def tool(name: str, *arguments: str, room: Room | None = None) -> Command:
    """One of the host's own, as root; in a room or outside of all."""
    return Command(argv=(find_program(name), *arguments), environment={}, room=room)


_PACKAGE = {"nft": "nftables", "bwrap": "bubblewrap", "git": "git"}


async def apply_ruleset(programs: Programs, network: Room, ruleset: str) -> str:
    """Load the rules in one transaction; the hash of what the kernel then has."""
    nft = tool("nft", "-f", "-", room=network)
    finished = await programs.run(nft, ruleset.encode("ascii"))
    if finished.status != 0:
        raise Failed("N102", "the network rules were not accepted", why=finished.why())
    return await loaded_hash(programs, network)


async def loaded_hash(programs: Programs, network: Room) -> str:
    """Of the kernel's own listing: its spelling differs between versions of nft, not in time."""
    finished = await programs.run(tool("nft", "list", "ruleset", room=network))
    if finished.status != 0:  # nft was killed, or had no memory: that says nothing of the rules
        raise Failed("R101", "nft did not list the network rules", why=finished.why())
    if not finished.output.strip():
        raise Failed("N102", "the network rules cannot be read", why="there are none")
    # Ours are ASCII: others are no reason to fail, and have another hash.
    return ruleset_hash(finished.output.decode("utf-8", "replace"))
