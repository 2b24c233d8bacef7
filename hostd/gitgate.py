"""The git gate: fetch, push and ls-remote as the helper uid, in a repository of its own.

Git run by a privileged uid in a tree that untrusted code can write is code execution as that uid.
So the gate never sees the workspace: objects cross as pack streams between two processes, one of
each uid, and refs cross as object ids that are checked here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, gatherResults

from hostd.environment import UNTRUSTED, gate_git
from hostd.failures import Failed
from hostd.programs import Finished, Program, Programs
from hostd.refspecs import GateRequest, Push, parse_object, parse_objects, parse_push
from hostd.runtimes.bwrap import GATE
from hostd.sandbox import Repository, Sandbox
from hostd.spawner import Command, Spawner

_PORT = 418
_QUICK = 60.0
_TRANSFER = 900.0
_GIT = "/usr/bin/git"
_HELPER_LIMITS = {"open_files": 1024, "file_size": 8 << 30}


@frozen
class Stdio:
    """Descriptors that the admin's hostctl reads; output of git goes there as it comes."""

    output: int
    problems: int


class GitGate:
    def __init__(self, spawner: Spawner, programs: Programs, sandbox: Sandbox) -> None:
        self._spawner = spawner
        self._programs = programs
        self._sandbox = sandbox
        self._environment = gate_git(sandbox.plan.uids.sidecar)

    # The two kinds of git process

    def _as_helper(self, arguments: Sequence[str]) -> Program:
        sandbox = self._sandbox
        assert sandbox.gate is not None  # noqa: S101 - a running sandbox has its gate room
        return Program(
            [_GIT, *arguments],
            self._environment,
            uid=sandbox.plan.uids.helper,
            room=sandbox.gate.join(),
            cgroups=sandbox.cgroups["gate"],
            limits=_HELPER_LIMITS,
        )

    def _as_untrusted(self, repository: Repository, arguments: Sequence[str]) -> Program:
        sandbox = self._sandbox
        assert sandbox.room is not None  # noqa: S101 - a running sandbox has its room
        return Program(
            [_GIT, "-C", repository.directory, *arguments],
            UNTRUSTED,
            uid=sandbox.plan.uids.untrusted,
            room=sandbox.room.join(),
            cgroups=sandbox.cgroups["sandbox"],
        )

    async def _helper(
        self, repository: Repository, *arguments: str, stdin: bytes = b"", timeout: float = _QUICK
    ) -> Finished:
        program = self._as_helper([f"--git-dir={_bare(repository)}", *arguments])
        return await self._programs.run(program, stdin, timeout)

    async def _untrusted(
        self, repository: Repository, *arguments: str, stdin: bytes = b"", timeout: float = _QUICK
    ) -> Finished:
        program = self._as_untrusted(repository, arguments)
        return await self._programs.run(program, stdin, timeout)

    # Operations

    async def clone(self, repository: Repository) -> None:
        """Bring a repository into the workspace, checked out, before any command runs."""
        await self.fetch(repository, None)
        branch = await self._default_branch(repository)
        if branch is not None:
            done = await self._untrusted(
                repository, "checkout", "-q", "-B", branch, "--track", f"origin/{branch}",
                timeout=_TRANSFER,
            )  # fmt: skip
            _demand(done, "the workspace could not be checked out")

    async def serve(self, request: GateRequest, stdio: Stdio) -> int:
        repository = self._repository(request.remote)
        if request.operation == "fetch":
            await self.fetch(repository, stdio)
            return 0
        if request.operation == "ls-remote":
            return await self._talk(
                repository, ["ls-remote", self._url(repository), *request.refs], stdio
            )
        return await self._push(repository, request.pushes, stdio)

    async def fetch(self, repository: Repository, stdio: Stdio | None) -> None:
        """Upstream → the gate's repository → the workspace's objects and origin refs."""
        await self._make_bare(repository)
        arguments = [
            "fetch", "--no-write-fetch-head", "--prune", "--no-recurse-submodules",
            "--no-auto-maintenance", self._url(repository),
            "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*",
        ]  # fmt: skip
        if stdio is None:
            done = await self._helper(repository, *arguments, timeout=_TRANSFER)
            _demand(done, f"{repository.url} could not be fetched", whole=True)
        elif await self._talk(repository, arguments, stdio) != 0:
            raise Failed("R105", f"{repository.url} could not be fetched")
        await self._deliver(repository)

    async def _push(self, repository: Repository, pushes: Sequence[Push], stdio: Stdio) -> int:
        await self._make_bare(repository)
        refspecs = [await self._take(repository, push) for push in pushes]
        arguments = ["push", "--no-verify", "--no-signed", self._url(repository), *refspecs]
        return await self._talk(repository, arguments, stdio)

    # Pieces

    def _repository(self, remote: str) -> Repository:
        known = self._sandbox.plan.repositories
        for repository in known:
            if remote in (repository.url, repository.name):
                return repository
        if remote == "origin" and len(known) == 1:
            return known[0]
        raise Failed(
            "R103",
            f"this sandbox has no repository {remote!r}",
            fix="name one of: " + ", ".join(each.name for each in known)
            if known
            else "start the sandbox with --repo",
            exit_code=4,
        )

    def _url(self, repository: Repository) -> str:
        return repository.gate_url(_PORT)

    async def _talk(self, repository: Repository, arguments: Sequence[str], stdio: Stdio) -> int:
        """Run the gate's git with its output going to the admin."""
        program = self._as_helper([f"--git-dir={_bare(repository)}", *arguments])
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            command: Command = program.command([null, stdio.output, stdio.problems])
            process = await self._spawner.execute(command)
        finally:
            os.close(null)
        return await self._programs.end_within(process, _TRANSFER)

    async def _make_bare(self, repository: Repository) -> None:
        """The format follows the upstream: object ids of 64 digits are SHA-256."""
        bare = _bare(repository)
        found = await self._programs.run(self._as_helper(["--git-dir", bare, "rev-parse"]))
        if found.status == 0:
            return
        listed = await self._programs.run(
            self._as_helper(["ls-remote", self._url(repository)]), timeout=_TRANSFER
        )
        _demand(listed, f"{repository.url} could not be reached", whole=True)
        sha256 = listed.output.find(b"\t") == 64
        made = await self._programs.run(
            self._as_helper(
                [
                    *("init", "--quiet", "--bare", "--template="),
                    f"--object-format={'sha256' if sha256 else 'sha1'}",
                    bare,
                ]
            )
        )
        _demand(made, "the gate's repository could not be made")

    async def _default_branch(self, repository: Repository) -> str | None:
        done = await self._helper(
            repository, "ls-remote", "--symref", self._url(repository), "HEAD"
        )
        first, _, _ = done.output.decode(errors="replace").partition("\n")
        if not first.startswith("ref: refs/heads/"):
            return None
        branch = first.removeprefix("ref: refs/heads/").partition("\t")[0]
        exists = await self._helper(
            repository, "rev-parse", "--verify", "-q", f"refs/heads/{branch}"
        )
        return branch if exists.status == 0 else None

    async def _refs(self, repository: Repository) -> list[tuple[str, str]]:
        """(object id, ref) of every branch and tag that the gate has."""
        done = await self._helper(
            repository,
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "refs/heads",
            "refs/tags",
        )
        _demand(done, "the gate's refs could not be read")
        lines = done.output.decode().splitlines()
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]

    async def _deliver(self, repository: Repository) -> None:
        """Objects as a pack stream, then refs, both written by the workspace's own uid."""
        refs = await self._refs(repository)
        await self._make_workspace(repository)
        if not refs:
            return
        wanted = "".join(f"{oid}\n" for oid, _ in refs)
        had = await self._untrusted(
            repository, "for-each-ref", "--format=%(objectname)", "refs/remotes/origin", "refs/tags"
        )
        common = await self._existing(repository, parse_objects(had.output))
        revisions = wanted + "".join(f"^{oid}\n" for oid in common)
        taken = await self._stream(repository, revisions.encode())
        if not taken and common:  # it said it had what it has not: give it everything, once
            taken = await self._stream(repository, wanted.encode())
        if not taken:
            raise Failed("R105", "the workspace did not take the objects")
        await self._update_refs(repository, refs)

    async def _existing(self, repository: Repository, oids: Sequence[str]) -> list[str]:
        """Those of the ids that the gate has: the workspace may claim anything."""
        listed = "".join(f"{oid}\n" for oid in oids).encode()
        done = await self._helper(
            repository, "cat-file", "--batch-check=%(objectname)", stdin=listed
        )
        return parse_objects(done.output)

    async def _stream(self, repository: Repository, revisions: bytes) -> bool:
        """pack-objects as the helper → index-pack as the untrusted uid."""
        sender = self._as_helper(
            [
                f"--git-dir={_bare(repository)}",
                *("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"),
            ]
        )
        receiver = self._as_untrusted(repository, ["index-pack", "--stdin", "--fix-thin"])
        return await self._pipe(sender, revisions, receiver)

    async def _pipe(self, sender: Program, stdin: bytes, receiver: Program) -> bool:
        read, write = os.pipe2(os.O_CLOEXEC)
        sending = Deferred.fromCoroutine(self._programs.into(sender, stdin, write, _TRANSFER))
        receiving = Deferred.fromCoroutine(self._programs.run_from(receiver, read, _TRANSFER))
        receiving.addBoth(_close_after, read)
        done = await gatherResults([sending, receiving], consumeErrors=True)
        return all(finished.status == 0 for finished in done)

    async def _make_workspace(self, repository: Repository) -> None:
        found = await self._untrusted(repository, "rev-parse", "--git-dir")
        if found.status == 0:
            return
        sha256 = await self._helper(repository, "rev-parse", "--show-object-format")
        made = await self._programs.run(
            Program(
                [_GIT, "init", "--quiet", f"--object-format={sha256.output.decode().strip()}",
                 repository.directory],
                UNTRUSTED,
                uid=self._sandbox.plan.uids.untrusted,
                room=self._sandbox.room.join() if self._sandbox.room else None,
                cgroups=self._sandbox.cgroups["sandbox"],
            )
        )  # fmt: skip
        _demand(made, "the workspace's repository could not be made")
        added = await self._untrusted(repository, "remote", "add", "origin", repository.url)
        _demand(added, "the workspace's repository could not be made")

    async def _update_refs(self, repository: Repository, refs: Sequence[tuple[str, str]]) -> None:
        lines = [f"update {_tracking(ref)} {oid}\n" for oid, ref in refs]
        done = await self._untrusted(
            repository, "update-ref", "--stdin", stdin="".join(lines).encode()
        )
        _demand(done, "the workspace's refs could not be written")

    async def _take(self, repository: Repository, push: Push) -> str:
        """Bring one revision of the workspace into the gate; the refspec to push it with."""
        sign = "+" if push.force else ""
        destination = push.destination.text if push.destination else None
        if push.source is None:
            return f"{sign}:{destination}"
        found = await self._untrusted(
            repository, "rev-parse", "--verify", "--quiet", "--end-of-options", push.source
        )
        oid = parse_object(found.output)
        if oid is None:
            raise Failed("R103", f"the workspace has no revision {push.source!r}", exit_code=4)
        if destination is None:
            destination = await self._current_branch(repository)
        await self._take_objects(repository, oid)
        return f"{sign}{oid}:{destination}"

    async def _current_branch(self, repository: Repository) -> str:
        done = await self._untrusted(repository, "symbolic-ref", "--quiet", "HEAD")
        name = done.output.decode(errors="replace").strip()
        if not name.startswith("refs/heads/"):
            raise Failed("R103", "the workspace is on no branch; name a ref to push", exit_code=4)
        destination = parse_push(name).destination
        assert destination is not None  # noqa: S101 - a full name always has one
        return destination.text

    async def _take_objects(self, repository: Repository, oid: str) -> None:
        """pack-objects as the untrusted uid → index-pack --strict as the helper, within limits."""
        bases = [base for base, _ in await self._refs(repository)]
        listed = "".join(f"{base}\n" for base in bases).encode()
        shared = await self._untrusted(
            repository, "cat-file", "--batch-check=%(objectname)", stdin=listed
        )
        revisions = f"{oid}\n" + "".join(f"^{base}\n" for base in parse_objects(shared.output))
        sender = self._as_untrusted(
            repository,
            ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"],
        )
        limit = self._sandbox.plan.policy.limits.push_max
        receiver = self._as_helper(
            [
                f"--git-dir={_bare(repository)}",
                *("index-pack", "--stdin", "--strict", "--fix-thin"),
                f"--max-input-size={limit}",
            ]
        )
        if not await self._pipe(sender, revisions.encode(), receiver):
            raise Failed(
                "G203",
                "the workspace's objects were not accepted",
                why=f"they are malformed, incomplete, or larger than {limit} bytes",
            )
        whole = await self._helper(
            repository, "rev-list", "--objects", "--quiet", oid, "--not", "--all", timeout=_TRANSFER
        )
        _demand(whole, "the workspace's objects are not complete")


def _bare(repository: Repository) -> str:
    key = f"{repository.upstream.name}:{repository.path.text}"
    return f"{GATE}/{hashlib.sha256(key.encode()).hexdigest()[:16]}.git"


def _tracking(ref: str) -> str:
    if ref.startswith("refs/heads/"):
        return "refs/remotes/origin/" + ref.removeprefix("refs/heads/")
    return ref


def _close_after(result: Any, descriptor: int) -> Any:
    os.close(descriptor)
    return result


def _demand(finished: Finished, what: str, *, whole: bool = False) -> None:
    """`whole`: git's refusals have several lines, and the first says why."""
    if finished.status == 0:
        return
    raise Failed("R105", what, why=finished.everything() if whole else finished.why())
