"""What the workspace changed, compared where nothing of the workspace's own can hide or run."""

from __future__ import annotations

from hostd.gate.bare_repository import GateRepository
from hostd.gate.git_processes import GateProcesses, Stdio
from hostd.gate.transfer import take
from hostd.gate.workspace import WorkspaceRepository

# No attribute of a tree makes a change invisible (gitattributes(5); in a bare repository attr.tree
# is HEAD otherwise), and nobody is asked to show it in another way.
_DIFF = (
    *("-c", "attr.tree=", "-c", "core.quotePath=true", "diff", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--find-renames", "--patch-with-stat"),
)


async def compare(
    processes: GateProcesses,
    gate: GateRepository,
    workspace: WorkspaceRepository,
    revision: str | None,
    limit: int,
    stdio: Stdio,
) -> int:
    """The workspace's objects → quarantine, where the gate's git compares them with where they
    began; what the workspace says of itself decides nothing but what is compared."""
    tip, tree = await workspace.snapshot(revision)
    await take(processes, gate, workspace, sorted({tip or tree, tree}), limit)
    program = gate.quarantined_git(*_DIFF, await gate.fork_point(tip), tree)
    status = await processes.talk(program, stdio)
    await gate.tidy()
    return status
