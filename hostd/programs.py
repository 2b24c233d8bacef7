"""Running one of the host's own tools to its end and keeping what it printed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from hostd.failures import Failed
from hostd.patience import within
from hostd.pipes import collect
from hostd.process import Process
from hostd.spawner import Command, Room, Spawner

_OUTPUT_LIMIT = 4 * 1024 * 1024
_PROBLEM_LIMIT = 64 * 1024
_GRACE = 5.0


@frozen
class Finished:
    status: int
    output: bytes
    problems: bytes

    def why(self) -> str:
        """The last line on stderr, fit for a message."""
        lines = [line for line in self.problems.decode(errors="replace").splitlines() if line]
        return _plain(lines[-1] if lines else f"exit status {self.status}")[:300]

    def everything(self) -> str:
        """All of stderr on one line: git's refusals have several, and the first says why."""
        lines = self.problems.decode(errors="replace").splitlines()
        text = " / ".join(line.strip() for line in lines if line.strip())
        return _plain(text or f"exit status {self.status}")[:1000]


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


@frozen
class Program:
    """Like Command, without the descriptors: `Programs` makes those."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    uid: int = 0
    cwd: str = "/"
    room: Room | None = None
    cgroups: Sequence[str] = ()
    limits: Mapping[str, int | None] | None = None
    attempts: Sequence[Sequence[Any]] | None = None
    cause: str = ""

    def command(self, stdio: Sequence[int]) -> Command:
        limits = self.limits or {"open_files": 1024}
        return Command(
            self.argv,
            self.environment,
            stdio,
            uid=self.uid,
            cwd=self.cwd,
            room=self.room,
            cgroups=self.cgroups,
            limits=limits,
            attempts=self.attempts,
            cause=self.cause,
        )


def file_of(data: bytes) -> int:
    """A descriptor to read these bytes from; in memory, no size limit of a pipe."""
    descriptor = os.memfd_create("gitmoat-input", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Programs:
    """Starts programs, collects their output, and ends those that take too long."""

    def __init__(self, reactor: Any, spawner: Spawner) -> None:
        self._reactor = reactor
        self._spawner = spawner

    async def run(self, program: Program, stdin: bytes = b"", timeout: float = 60) -> Finished:
        source = file_of(stdin)
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        output = collect(self._reactor, out_r, _OUTPUT_LIMIT)
        problems = collect(self._reactor, err_r, _PROBLEM_LIMIT)
        try:
            process = await self._spawner.execute(program.command([source, out_w, err_w]))
        finally:
            for descriptor in (source, out_w, err_w):
                os.close(descriptor)
        try:
            await self._end_within(process, timeout)
        except Failed:
            _cut(output, problems)
            raise
        # Whoever still holds the pipes now is not the program that was run.
        cut = self._reactor.callLater(_GRACE, _cut, output, problems)
        finished = Finished(process.status or 0, await output, await problems)
        if cut.active():
            cut.cancel()
        return finished

    async def _end_within(self, process: Process, timeout: float) -> None:
        """One that was killed and does not end, as in a frozen group, is not waited for either."""
        if await within(self._reactor, timeout, process.wait()):
            return
        process.kill_session()
        if not await within(self._reactor, _GRACE, process.wait()):
            raise Failed("R117", "a program was ended and does not go away", why=str(process.pid))


def _cut(*collected: Deferred[bytes]) -> None:
    for each in collected:
        each.cancel()
