"""Sends objects between the gate's repository and the workspace's, as packs that are checked."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from hostd.failures import Failed
from hostd.gate.bare_repository import GateRepository
from hostd.gate.git_processes import GateProcesses, Streamed
from hostd.gate.pack_relay import End
from hostd.gate.refspecs import lines
from hostd.gate.workspace import WorkspaceRepository

_PACK = ("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
_PACK_NAME = re.compile(rb"pack\t([0-9a-f]{40}|[0-9a-f]{64})\n")


async def deliver(
    processes: GateProcesses, gate: GateRepository, workspace: WorkspaceRepository
) -> None:
    """Sends objects as a pack stream, then refs; the workspace's own uid writes both."""
    refs = await gate.refs()
    await workspace.make(await gate.object_format())
    before = await workspace.refs(refs)
    # The workspace may have a ref without its object: the command may have deleted that.
    held = await workspace.existing(list(dict.fromkeys(before.values())))
    common = await gate.existing(held)
    wanted = list(dict.fromkeys(oid for oid, _ in refs))
    if not set(wanted) <= set(common):
        await _send_objects(processes, gate, workspace, wanted, common)
    await workspace.update_refs(refs, before)


async def _send_objects(
    processes: GateProcesses,
    gate: GateRepository,
    workspace: WorkspaceRepository,
    wanted: Sequence[str],
    common: Sequence[str],
) -> None:
    async def give(*without: str) -> Streamed:
        revisions = lines([*wanted, *(f"^{oid}" for oid in without)])
        receiver = workspace.git("index-pack", "--stdin", "--fix-thin")
        return await processes.deliver(gate.git(*_PACK), revisions, receiver)

    taken = await give(*common)
    if not taken.whole and common:  # it lacks what it said it had: everything is sent, once
        taken = await give()
    if not taken.whole:
        raise Failed("R105", "the workspace did not take the objects", why=_why(taken))


async def take(
    processes: GateProcesses,
    gate: GateRepository,
    workspace: WorkspaceRepository,
    oids: Sequence[str],
    limit: int,
) -> str:
    """Takes objects of the workspace into the gate's quarantine; returns the name of their pack."""
    shared = await workspace.existing([oid for oid, _ in await gate.refs()])
    revisions = lines([*oids, *(f"^{base}" for base in shared)])
    await gate.open_quarantine()
    receiver = gate.quarantined_git("index-pack", "--stdin", "--strict", "--fix-thin")
    taken = await processes.take(workspace.git(*_PACK), revisions, receiver, limit)
    if taken.relayed.end is End.TOO_LARGE:
        raise Failed("G301", f"the workspace's objects are larger than {limit} bytes", exit_code=3)
    name = _PACK_NAME.fullmatch(taken.receiver.output)
    if not taken.whole or name is None:
        raise Failed(
            "G203",
            "the workspace's objects were not accepted",
            why=_why(taken),
            fix="`hostctl exec S -- git fsck --strict` shows what is wrong with them",
        )
    await gate.check_whole(oids)
    return name[1].decode()


def _why(taken: Streamed) -> str:
    """What failed first: the receiver also fails when the sender does."""
    match taken.relayed.end:
        case End.STALLED:
            return f"the stream stood still after {taken.relayed.octets} bytes"
        case End.COMPLETE if taken.receiver.status == -signal.SIGKILL:
            return f"the receiving git took too long over {taken.relayed.octets} bytes"
        case End.COMPLETE if taken.sender.status != 0:
            return f"the sending git ended: {taken.sender.why()}"
        case _:
            return f"the receiving git ended: {taken.receiver.why()}"
