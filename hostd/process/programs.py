"""Runs a program to its end and keeps what it printed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from attrs import define, frozen
from twisted.internet.defer import Deferred

from hostd.deferreds import cancel, within
from hostd.failures import Failed
from hostd.process.handle import Process
from hostd.process.launcher_client import LauncherClient
from hostd.process.pipes import collect, file_of
from hostd.process.requests import Command, Probe

_OUTPUT_LIMIT = 4 * 1024 * 1024
_PROBLEM_LIMIT = 64 * 1024
_GRACE = 5.0


@frozen
class Finished:
    status: int
    output: bytes
    problems: bytes

    def why(self) -> str:
        """The last line of its stderr, without control characters."""
        lines = [line for line in self.problems.decode(errors="replace").splitlines() if line]
        return _plain(lines[-1] if lines else f"exit status {self.status}")[:300]

    def everything(self) -> str:
        """All of its stderr on one line: of git's refusals the first line gives the reason."""
        lines = self.problems.decode(errors="replace").splitlines()
        text = " / ".join(line.strip() for line in lines if line.strip())
        return _plain(text or f"exit status {self.status}")[:1000]


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


@define(eq=False)
class Running:
    """A program that was started, and what it prints."""

    process: Process
    output: Deferred[bytes]
    problems: Deferred[bytes]

    async def printed(self, reactor: Any, grace: float) -> Finished:
        """To be called after its end. Another process may still hold its pipes: it is given
        `grace` seconds."""
        late = reactor.callLater(grace, self.cut)
        finished = Finished(self.process.status or 0, await self.output, await self.problems)
        cancel(late)
        return finished

    def cut(self) -> None:
        self.output.cancel()
        self.problems.cancel()


class Programs:
    """Starts programs, collects their output, and ends those that take too long."""

    def __init__(self, reactor: Any, launcher: LauncherClient) -> None:
        self._reactor = reactor
        self._launcher = launcher

    async def start(
        self, child: Command | Probe, source: int, limit: int, sink: int | None = None
    ) -> Running:
        """Its output is kept up to `limit`, or goes to `sink`. The caller closes both ends."""
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        output = collect(self._reactor, out_r, limit)
        problems = collect(self._reactor, err_r, _PROBLEM_LIMIT)
        stdio = [source, out_w if sink is None else sink, err_w]
        try:
            process = await self._launcher.ask_child(child, stdio)
        finally:
            os.close(out_w)
            os.close(err_w)
        return Running(process, output, problems)

    async def start_with(
        self, child: Command | Probe, stdin: bytes, limit: int, sink: int | None = None
    ) -> Running:
        source = file_of(stdin)
        try:
            return await self.start(child, source, limit, sink)
        finally:
            os.close(source)

    async def start_on(self, child: Command, stdio: Sequence[int]) -> Process:
        return await self._launcher.ask_child(child, stdio)

    async def run(
        self, child: Command | Probe, stdin: bytes = b"", timeout: float = 60
    ) -> Finished:
        running = await self.start_with(child, stdin, _OUTPUT_LIMIT)
        finished, _ = await self.finish(running, timeout, _GRACE)
        return finished

    async def finish(self, running: Running, timeout: float, grace: float) -> tuple[Finished, bool]:
        """Its result, and whether it ended in time; if not it was killed."""
        try:
            in_time = await self._end_within(running.process, timeout)
        except Failed:
            running.cut()
            raise
        return await running.printed(self._reactor, grace), in_time

    async def _end_within(self, process: Process, timeout: float) -> bool:
        """A program that was killed may not end, in a frozen cgroup for example: that is an error
        after some seconds."""
        if await within(self._reactor, timeout, process.wait()):
            return True
        process.kill_session()
        if await within(self._reactor, _GRACE, process.wait()):
            return False
        raise Failed("R117", "a program was killed and does not end", why=str(process.pid))
