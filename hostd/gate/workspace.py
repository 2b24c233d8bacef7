"""The workspace's repository as the gate sees it: questions to its git, answers that are parsed.

Everything here runs as the untrusted uid, inside the sandbox: what a hostile .git makes git do
happens there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hostd.failures import Failed
from hostd.gate.git_commands import GatePrograms
from hostd.gate.git_processes import GateProcesses
from hostd.gate.refspecs import (
    is_tracking,
    lines,
    parse_branch,
    parse_names,
    parse_objects,
    parse_refs,
    parse_resolved,
    tracking,
)
from hostd.process.programs import Finished
from hostd.process.requests import Command
from hostd.sandbox.gitconfig import URLS
from hostd.sandbox.plan import Repository

_ANY_NUMBER = 1_000_000


class WorkspaceRepository:
    def __init__(
        self, programs: GatePrograms, processes: GateProcesses, repository: Repository
    ) -> None:
        self._programs = programs
        self._processes = processes
        self._repository = repository

    def git(self, *arguments: str) -> Command:
        return self._programs.untrusted_git("-C", self._repository.directory, *arguments)

    async def ask(
        self, *arguments: str, stdin: bytes = b"", files: int = 0, answer: int = 0
    ) -> Finished:
        program = self.git(*arguments)
        return await self._processes.ask_untrusted(program, stdin, files=files, answer=answer)

    async def make(self, object_format: str) -> None:
        if (await self.ask("rev-parse", "--git-dir")).status == 0:
            return
        directory = self._repository.directory
        made = await self._processes.ask_untrusted(
            self._programs.untrusted_git(
                "init", "--quiet", f"--object-format={object_format}", directory
            )
        )
        _demand(made, "the workspace's repository could not be made")
        added = await self.ask("remote", "add", "origin", self._repository.url)
        _demand(added, "the workspace's repository could not be made")
        led = await self.ask("config", "include.path", URLS)
        _demand(led, "the workspace's repository could not be made")

    async def check_out(self, branch: str) -> None:
        done = await self.ask(
            *("checkout", "-q", "-B", branch, "--track", f"origin/{branch}"), files=_ANY_NUMBER
        )
        _demand(done, "the workspace could not be checked out")

    async def refs(self, upstream: Sequence[tuple[str, str]]) -> dict[str, str]:
        """The refs that it says it has of the upstream: ref → object id.

        The answer may be twice as long as the upstream's refs, for refs of the workspace's own.
        """
        form = "--format=%(objectname) %(refname)"
        most = 2 * len(lines(f"{oid} {tracking(ref)}" for oid, ref in upstream))
        done = await self.ask("for-each-ref", form, "refs/remotes/origin", "refs/tags", answer=most)
        return parse_refs(done.output)

    async def existing(self, oids: Sequence[str]) -> list[str]:
        """Those of the ids that it says it has."""
        asked = lines(oids)
        most = len(asked) + len(oids) * len(" missing")  # git-cat-file(1), BATCH OUTPUT
        done = await self.ask("cat-file", "--batch-check=%(objectname)", stdin=asked, answer=most)
        return parse_objects(done.output, most=len(oids))

    async def named(self, refs: Collection[str]) -> set[str]:
        """Those of the refs that it says it has."""
        if not refs:
            return set()
        done = await self.ask("for-each-ref", "--format=%(refname)", *refs)
        return parse_names(done.output, refs)

    async def resolve(self, revisions: Sequence[str]) -> dict[str, str]:
        """The object id of each revision."""
        done = await self.ask("cat-file", "--batch-check=%(objectname)", stdin=lines(revisions))
        found = parse_resolved(done.output, len(revisions))
        for revision, oid in zip(revisions, found, strict=True):
            if oid is None:
                raise _no_revision(f"the workspace has no revision {revision!r}")
        return {each: oid for each, oid in zip(revisions, found, strict=True) if oid is not None}

    async def snapshot(self, revision: str | None) -> tuple[str | None, str]:
        """A commit and the tree to be compared; without a revision HEAD (None: it has no commit)
        and the tree that committing everything would make. The command's index stays as it is."""
        if revision is not None:
            found = (await self.resolve([revision]))[revision]
            return found, found
        done = await self.ask("rev-parse", "-q", "--verify", "HEAD^{commit}")
        (head,) = parse_resolved(done.output, 1)
        failed = "the workspace could not say what is in it"
        _demand(await self._index("read-tree", head or "--empty"), failed)
        _demand(await self._index("add", "--all", files=_ANY_NUMBER), failed)
        written = await self._index("write-tree")
        _demand(written, failed)
        (tree,) = parse_resolved(written.output, 1)
        if tree is None:
            raise Failed("R105", failed, why="its git wrote no tree")
        return head, tree

    async def _index(self, *arguments: str, files: int = 0) -> Finished:
        """With an index of our own; the next difference writes it anew."""
        where = {"GIT_INDEX_FILE": "/tmp/gitmoat-index"}  # noqa: S108 - the sandbox's own
        program = self._programs.untrusted_git(
            "-C", self._repository.directory, *arguments, more=where
        )
        return await self._processes.ask_untrusted(program, files=files)

    async def current_branch(self) -> str:
        done = await self.ask("symbolic-ref", "--quiet", "HEAD")
        branch = parse_branch(done.output)
        if branch is None:
            raise _no_revision("the workspace is on no branch; name a ref to push")
        return branch.text

    async def begin_on(self, branch: str) -> None:
        """The branch of the first commit, as a clone of an empty repository has it."""
        for words in (
            ("symbolic-ref", "HEAD", f"refs/heads/{branch}"),
            ("config", f"branch.{branch}.remote", "origin"),
            ("config", f"branch.{branch}.merge", f"refs/heads/{branch}"),
        ):
            _demand(await self.ask(*words), "the workspace's repository could not be made")

    async def update_refs(self, refs: Sequence[tuple[str, str]], before: Mapping[str, str]) -> None:
        """Branches that the upstream no longer has are deleted first: with `a` there is no `a/b`
        (git-check-ref-format(1))."""
        wanted = {tracking(ref): oid for oid, ref in refs}
        gone = [ref for ref in before if is_tracking(ref) and ref not in wanted]
        await self._change_refs([f"delete {ref}" for ref in gone])
        changed = [ref for ref, oid in wanted.items() if before.get(ref) != oid]
        await self._change_refs([f"update {ref} {wanted[ref]}" for ref in changed])

    async def note_pushed(self, pushed: Mapping[str, str | None]) -> None:
        """What origin's branches are now, as git's own push leaves it; None: deleted."""
        branches = {ref: oid for ref, oid in pushed.items() if ref.startswith("refs/heads/")}
        await self._change_refs(
            [
                f"delete {tracking(ref)}" if oid is None else f"update {tracking(ref)} {oid}"
                for ref, oid in branches.items()
            ]
        )

    async def _change_refs(self, changes: Collection[str]) -> None:
        if not changes:
            return
        # What the upstream has can be fetched again: no fsync is needed.
        done = await self.ask(
            *("-c", "core.fsync=none", "update-ref", "--no-deref", "--stdin"),
            stdin=lines(changes),
            files=len(changes),
        )
        _demand(done, "the workspace's refs could not be written")


def _no_revision(what: str) -> Failed:
    return Failed(
        "R105",
        what,
        why="git finds none in /workspace",
        fix="`hostctl exec S -- git branch -a` shows what there is; SRC:DST names both sides",
        exit_code=4,
    )


def _demand(finished: Finished, what: str) -> None:
    if finished.status != 0:
        raise Failed("R105", what, why=f"the workspace's git says: {finished.why()}")
