"""The git gate: fetch, push and ls-remote as the helper uid, in a repository of its own.

Git that runs in a tree of untrusted code executes that code as its own uid (hooks, core.fsmonitor;
git's safe.directory came with CVE-2022-24765). So the gate's git never reads the workspace: objects
cross as pack streams between two processes, one of each uid, and refs as object ids that are
checked here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from hostd.config import GateTimes
from hostd.failures import Failed
from hostd.gate.bare_repository import GateRepository
from hostd.gate.comparing import compare
from hostd.gate.git_commands import GatePrograms
from hostd.gate.git_processes import GateProcesses, Stdio
from hostd.gate.refspecs import GateRequest, Push, Target, candidates, target
from hostd.gate.transfer import deliver, take
from hostd.gate.workspace import WorkspaceRepository
from hostd.process.programs import Programs
from hostd.sandbox.plan import Repository
from hostd.sandbox.sandbox import Sandbox
from netpolicy.upstreams import without_userinfo


class GitGate:
    """One operation of the gate. `interrupt` ends it at any point."""

    def __init__(
        self, reactor: Any, programs: Programs, sandbox: Sandbox, times: GateTimes
    ) -> None:
        self._sandbox = sandbox
        self._programs = GatePrograms(sandbox)
        self._processes = GateProcesses(reactor, programs, times)

    def interrupt(self) -> None:
        why = "the hostctl that asked for it has ended"
        self._processes.end(Failed("R105", "the git gate was interrupted", why=why, exit_code=130))

    async def clone(self, repository: Repository) -> None:
        """Clones a repository into the workspace and checks it out, before any command runs."""
        async with self._turn(repository) as (gate, workspace):
            await self._fetch(gate, workspace, None)
            branch = await gate.default_branch()
            if branch is not None:
                await gate.note_default(branch)
                await workspace.check_out(branch)
            elif (unborn := await gate.unborn_branch()) is not None:
                await workspace.begin_on(unborn)

    async def serve(self, request: GateRequest, stdio: Stdio) -> int:
        async with self._turn(self._repository(request.remote)) as (gate, workspace):
            if request.operation == "push":
                return await self._push(gate, workspace, request.pushes, stdio)
            if request.operation == "fetch":
                await self._fetch(gate, workspace, stdio)
                return 0
            if request.operation == "diff":
                limit = self._sandbox.plan.policy.limits.push_max
                revision = next(iter(request.refs), None)
                return await compare(self._processes, gate, workspace, revision, limit, stdio)
            listing = gate.git("ls-remote", gate.url, *request.refs)
            return await self._processes.talk(listing, stdio)

    @contextlib.asynccontextmanager
    async def _turn(
        self, repository: Repository
    ) -> AsyncIterator[tuple[GateRepository, WorkspaceRepository]]:
        """One operation at a time in a sandbox; one that fails has its remains removed."""
        gate = GateRepository(self._programs, self._processes, repository)
        workspace = WorkspaceRepository(self._programs, self._processes, repository)
        await self._sandbox.git_lock.acquire()
        self._processes.begin()
        try:
            await gate.make()
            yield gate, workspace
        except BaseException:
            with contextlib.suppress(Failed):
                await gate.tidy()
            raise
        finally:
            self._processes.close()
            self._sandbox.git_lock.release()

    async def _fetch(
        self, gate: GateRepository, workspace: WorkspaceRepository, stdio: Stdio | None
    ) -> None:
        """Upstream → the gate's repository → the workspace's objects and origin refs."""
        await gate.fetch(stdio)
        await deliver(self._processes, gate, workspace)

    async def _push(
        self,
        gate: GateRepository,
        workspace: WorkspaceRepository,
        pushes: Sequence[Push],
        stdio: Stdio,
    ) -> int:
        """The workspace's objects → quarantine → upstream; kept only if the upstream took them."""
        targets = await self._targets(gate, workspace, pushes)
        wanted = [each.source for each in targets if each.source is not None]
        found = await workspace.resolve(wanted) if wanted else {}
        changes = [await self._change(workspace, each, found) for each in targets]
        pack = None
        if found:
            limit = self._sandbox.plan.policy.limits.push_max
            oids = sorted(set(found.values()))
            pack = await take(self._processes, gate, workspace, oids, limit)
        refspecs = [f"{sign}{oid or ''}:{ref}" for sign, oid, ref in changes]
        git = gate.git if pack is None else gate.quarantined_git
        program = git("push", "--no-verify", "--no-signed", gate.url, *refspecs)
        status = await self._processes.talk(program, stdio)
        if status == 0:
            await gate.keep(pack, {ref: oid for _, oid, ref in changes})
        await gate.tidy()
        if status == 0:
            with contextlib.suppress(Failed):  # it was pushed, whatever the workspace does
                await workspace.note_pushed({ref: oid for _, oid, ref in changes})
        return status

    async def _targets(
        self, gate: GateRepository, workspace: WorkspaceRepository, pushes: Sequence[Push]
    ) -> list[Target]:
        deleted = [each.destination for each in pushes if each.source is None]
        there = await workspace.named(_all_candidates(each.source for each in pushes))
        upstream = await gate.named_upstream(_all_candidates(deleted))
        return [target(each, there, upstream) for each in pushes]

    async def _change(
        self, workspace: WorkspaceRepository, to: Target, found: Mapping[str, str]
    ) -> tuple[str, str | None, str]:
        """Sign, object id (None to delete) and ref, for the refspec of the push."""
        sign = "+" if to.force else ""
        ref = to.destination or await workspace.current_branch()
        return sign, found[to.source] if to.source is not None else None, ref

    def _repository(self, remote: str) -> Repository:
        known = self._sandbox.plan.repositories
        for repository in known:
            if remote in (repository.url, repository.name):
                return repository
        if remote == "origin" and len(known) == 1:
            return known[0]
        raise Failed(
            "R105",
            f"this sandbox has no repository {without_userinfo(remote)!r}",
            why="the gate serves what the sandbox was started with",
            fix="name one of: " + ", ".join(each.name for each in known)
            if known
            else "start the sandbox with --repo",
            exit_code=4,
        )


def _all_candidates(names: Iterable[str | None]) -> list[str]:
    return [ref for name in names for ref in candidates(name)]
