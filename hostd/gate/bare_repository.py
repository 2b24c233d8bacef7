"""The gate's own repository: bare, accessible to the helper alone, filled from one upstream.

What the workspace sends stays in quarantine beside it until the upstream has accepted it, as in
receive-pack (git-receive-pack(1), QUARANTINE ENVIRONMENT).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from hostd.failures import Failed
from hostd.gate.git_commands import GatePrograms
from hostd.gate.git_processes import GateProcesses, Stdio
from hostd.gate.refspecs import lines, parse_branch, parse_names, parse_objects
from hostd.process.programs import Finished
from hostd.process.requests import Command
from hostd.sandbox.bwrap import GATE
from hostd.sandbox.plan import Repository

_PORT = 418
_QUARANTINE = f"{GATE}/incoming"
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class GateRepository:
    def __init__(
        self, programs: GatePrograms, processes: GateProcesses, repository: Repository
    ) -> None:
        key = f"{repository.upstream.name}:{repository.path.text}"
        self._bare = f"{GATE}/{hashlib.sha256(key.encode()).hexdigest()[:16]}.git"
        self._programs = programs
        self._processes = processes
        self._repository = repository
        self.url = repository.gate_url(_PORT)

    def git(self, *arguments: str) -> Command:
        return self._programs.helper_git(f"--git-dir={self._bare}", *arguments)

    def quarantined_git(self, *arguments: str) -> Command:
        """It reads what the workspace sent, and writes to the quarantine alone."""
        return self._programs.helper_git(
            f"--git-dir={self._bare}", *arguments, push=True, more=self._quarantine()
        )

    def _quarantine(self) -> Mapping[str, str]:
        return {
            "GIT_OBJECT_DIRECTORY": _QUARANTINE,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{self._bare}/objects",
        }

    async def ask(self, *arguments: str, stdin: bytes = b"") -> Finished:
        return await self._processes.ask_helper(self.git(*arguments), stdin)

    async def make(self) -> None:
        """The object format is the upstream's: ids of 64 digits are SHA-256. One without any ref
        says in answer to a clone alone where its HEAD leads."""
        if (await self.ask("rev-parse")).status == 0:
            return
        listed = await self._processes.ask_helper(self._programs.helper_git("ls-remote", self.url))
        if b"\t" not in listed.output:  # an answer longer than is kept is cut off, not a failure
            demand(listed, f"{self._repository.url} could not be reached", whole=True)
        if listed.output:
            kind = "sha256" if listed.output.find(b"\t") == 64 else "sha1"
            how = ("init", f"--object-format={kind}", self._bare)
        else:
            how = ("clone", self.url, self._bare)
        command, *rest = how
        made = await self._processes.ask_helper(
            self._programs.helper_git(command, "--quiet", "--bare", "--template=", *rest)
        )
        demand(made, "the gate's repository could not be made")

    async def fetch(self, stdio: Stdio | None) -> None:
        program = self.git(
            "fetch", "--no-write-fetch-head", "--prune", "--no-recurse-submodules",
            "--no-auto-maintenance", self.url, *_REFS,
        )  # fmt: skip
        failed = f"{self._repository.url} could not be fetched"
        if stdio is None:
            demand(await self._processes.ask_helper(program), failed, whole=True)
        elif await self._processes.talk(program, stdio) != 0:
            raise Failed("R105", failed)

    async def object_format(self) -> str:
        done = await self.ask("rev-parse", "--show-object-format")
        return done.output.decode().strip()

    async def default_branch(self) -> str | None:
        done = await self.ask("ls-remote", "--symref", self.url, "HEAD")
        first, _, _ = done.output.decode(errors="replace").partition("\n")
        if not first.startswith("ref: refs/heads/"):
            return None
        branch = first.removeprefix("ref: refs/heads/").partition("\t")[0]
        exists = await self.ask("rev-parse", "--verify", "-q", f"refs/heads/{branch}")
        return branch if exists.status == 0 else None

    async def note_default(self, branch: str) -> None:
        """Where differences begin, also when the upstream cannot be asked any more."""
        await self.ask("symbolic-ref", "HEAD", f"refs/heads/{branch}")

    async def fork_point(self, tip: str | None) -> str:
        """The commit of the default branch that this one of the quarantine began at; the empty tree
        where there is none."""
        if tip is not None:
            program = self.quarantined_git("merge-base", "HEAD", tip)
            found = parse_objects((await self._processes.ask_helper(program)).output, most=1)
            if found:
                return found[0]
        done = await self.ask("hash-object", "-t", "tree", "--stdin")
        (empty,) = parse_objects(done.output, most=1)
        return empty

    async def unborn_branch(self) -> str | None:
        """Where the HEAD of an upstream without any ref leads (gitprotocol-v2(5), unborn)."""
        if await self.refs():
            return None
        done = await self.ask("symbolic-ref", "--quiet", "HEAD")
        branch = parse_branch(done.output)
        return None if branch is None else branch.text.removeprefix("refs/heads/")

    async def named_upstream(self, refs: Collection[str]) -> set[str]:
        """Those of the refs that the upstream has now."""
        if not refs:
            return set()
        done = await self.ask("ls-remote", self.url, *refs)
        demand(done, f"{self._repository.url} could not be reached", whole=True)
        names = done.output.replace(b"\t", b"\n")  # OBJECT TAB REF
        return parse_names(names, refs)

    async def refs(self) -> list[tuple[str, str]]:
        """(object id, ref) of every branch and tag that the gate has."""
        form = "--format=%(objectname) %(refname)"
        done = await self.ask("for-each-ref", form, "refs/heads", "refs/tags")
        demand(done, "the gate's refs could not be read")
        listed = done.output.decode().splitlines()
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in listed]

    async def existing(self, oids: Sequence[str]) -> list[str]:
        """Those of the ids that the gate has: the workspace's own answer proves nothing."""
        done = await self.ask("cat-file", "--batch-check=%(objectname)", stdin=lines(oids))
        return parse_objects(done.output, most=len(oids))

    async def open_quarantine(self) -> None:
        made = await self._processes.ask_helper(
            self._programs.helper_tool("/bin/mkdir", "-p", f"{_QUARANTINE}/pack")
        )
        demand(made, "the gate has no space for a push")

    async def check_whole(self, oids: Sequence[str]) -> None:
        program = self.quarantined_git(
            "rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"
        )
        done = await self._processes.ask_helper(program, lines(oids))
        demand(done, "the workspace's objects are not complete")

    async def keep(self, pack: str | None, refs: Mapping[str, str | None]) -> None:
        """Moves what the upstream has accepted into the gate's repository, the index last: git
        uses a pack once its index is there.

        If this fails, the next push only sends more than it has to.
        """
        if pack is not None:
            files = [f"{_QUARANTINE}/pack/pack-{pack}{suffix}" for suffix in (".pack", ".idx")]
            move = ("/bin/mv", "-t", f"{self._bare}/objects/pack", *files)
            moved = await self._processes.ask_helper(self._programs.helper_tool(*move))
            if moved.status != 0:
                return
        changes = [
            f"update {ref} {oid}" if oid else f"delete {ref}"
            for ref, oid in refs.items()
            if ref.startswith(("refs/heads/", "refs/tags/"))
        ]
        await self.ask("update-ref", "--stdin", stdin=lines(changes))

    async def tidy(self) -> None:
        """Removes what a refused push, a killed git or a power cut left; no git runs now.

        A ref whose file is empty names nothing, and every later git would fail because of it.
        """
        await self._processes.tidy(
            self._programs.helper_tool(
                "/usr/bin/find", self._bare, _QUARANTINE, "-depth", "(",
                *("-path", f"{_QUARANTINE}*", "-o", "-type", "f", "-name", "*.lock", "-o"),
                *("-path", f"{self._bare}/objects/*", "-name", "tmp_*", "-o"),
                *("-path", f"{self._bare}/refs/*", "-type", "f", "-empty"),
                *(")", "-delete"),
            )
        )  # fmt: skip


def demand(finished: Finished, what: str, *, whole: bool = False) -> None:
    """`whole`: git's refusals have several lines, and the first says why."""
    if finished.status == 0:
        return
    raise Failed("R105", what, why=finished.everything() if whole else finished.why())
