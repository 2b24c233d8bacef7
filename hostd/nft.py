"""Loads a rendered ruleset into a sandbox's network namespace, in one transaction."""

from __future__ import annotations

import shutil

from hostd.failures import Failed
from hostd.programs import Program, Programs
from hostd.spawner import Room

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def find_program(name: str) -> str:
    found = shutil.which(name, path=_SYSTEM_PATH)
    if found is None:
        raise Failed("R102", f"{name} is not installed", fix=f"apt-get install {_PACKAGE[name]}")
    return found


_PACKAGE = {"nft": "nftables", "bwrap": "bubblewrap", "git": "git"}


async def apply_ruleset(programs: Programs, network: Room, ruleset: str) -> None:
    nft = Program([find_program("nft"), "-f", "-"], {}, room=network)
    finished = await programs.run(nft, ruleset.encode("ascii"))
    if finished.status != 0:
        raise Failed("N102", "the network rules were not accepted", why=finished.why())
