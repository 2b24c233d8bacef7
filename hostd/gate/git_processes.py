"""Runs the git gate's processes, within limits, and ends them together.

Code of the workspace controls the untrusted uid's git: it can stop it, trace it and make it print
anything. So every question to that git has a time limit, every answer has a size limit, and an
answer ends when the process that was asked ends, whatever else still holds its pipes.
"""

from __future__ import annotations

import os
from typing import Any

from attrs import frozen

from hostd.config import GateTimes
from hostd.deferreds import cancel
from hostd.failures import Failed
from hostd.gate.pack_relay import End, Relay, Relayed, Stalls
from hostd.process.handle import Process
from hostd.process.programs import Finished, Programs, Running
from hostd.process.requests import Command

_OUTPUT_LIMIT = 4 << 20
_OWN_OUTPUT_LIMIT = 32 << 20
_GRACE = 1.0
_SLOWEST_INDEXING = 1e6  # octets per second
_SLOWEST_WRITING = 100  # files per second


@frozen
class Stdio:
    """Descriptors that the admin's hostctl reads; git's output is written there at once."""

    output: int
    problems: int


@frozen
class Streamed:
    relayed: Relayed
    sender: Finished
    receiver: Finished

    @property
    def whole(self) -> bool:
        statuses = (self.sender.status, self.receiver.status)
        return self.relayed.end is End.COMPLETE and statuses == (0, 0)


class GateProcesses:
    """The processes of one operation; `end` kills all of them, and no other one is started."""

    def __init__(self, reactor: Any, programs: Programs, times: GateTimes) -> None:
        self._reactor = reactor
        self._programs = programs
        self._times = times
        self._live: set[Process] = set()
        self._ended: Failed | None = None
        self._timer: Any = None

    def begin(self) -> None:
        self._timer = self._reactor.callLater(self._times.whole, self._too_long)

    def end(self, problem: Failed) -> None:
        """The operation fails with this, whatever its processes print."""
        self._ended = self._ended or problem
        for process in tuple(self._live):
            process.kill_session()

    def close(self) -> None:
        cancel(self._timer)

    def _too_long(self) -> None:
        self.end(
            Failed(
                "R105",
                f"the git gate's operation was ended after {self._times.whole} s",
                why="one operation may not take longer",
                fix="`whole` in [gate] of hostd.toml sets how long it may",
                exit_code=124,
            )
        )

    async def ask_helper(self, command: Command, stdin: bytes = b"") -> Finished:
        return await self._ask(command, stdin, self._times.whole, _OWN_OUTPUT_LIMIT)

    async def tidy(self, command: Command) -> None:
        """Runs also after `end`: it removes the files of the processes that were killed."""
        ended, self._ended = self._ended, None
        try:
            await self._ask(command, b"", self._times.stall, _OUTPUT_LIMIT)
        finally:
            self._ended = self._ended or ended

    async def ask_untrusted(
        self, command: Command, stdin: bytes = b"", *, files: int = 0, answer: int = 0
    ) -> Finished:
        """`files`: how many files it has to write; the time limit grows with them.

        `answer`: how many octets an honest answer may have, where that is more than usual.
        """
        timeout = self._times.answer + files / _SLOWEST_WRITING
        return await self._ask(command, stdin, timeout, max(answer, _OUTPUT_LIMIT))

    async def _ask(self, command: Command, stdin: bytes, timeout: float, limit: int) -> Finished:
        self._check()
        running = await self._programs.start_with(command, stdin, limit)
        self._keep(running.process)
        return await self._finished(command, running, timeout)

    async def talk(self, command: Command, stdio: Stdio) -> int:
        """Runs it with its output going to the admin's hostctl."""
        self._check()
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            process = await self._programs.start_on(command, [null, stdio.output, stdio.problems])
        finally:
            os.close(null)
        self._keep(process)
        status = await process.wait()
        self._check()
        return status

    async def deliver(self, sender: Command, stdin: bytes, receiver: Command) -> Streamed:
        """From the helper, which is trusted: only the whole operation's time limits it."""
        stalls = Stalls(sender=self._times.whole, receiver=self._times.stall)
        return await self._stream(sender, stdin, receiver, None, stalls)

    async def take(self, sender: Command, stdin: bytes, receiver: Command, limit: int) -> Streamed:
        """From the untrusted uid, up to a limit."""
        stalls = Stalls(sender=self._times.stall, receiver=self._times.stall)
        return await self._stream(sender, stdin, receiver, limit, stalls)

    async def _stream(
        self, sender: Command, stdin: bytes, receiver: Command, limit: int | None, stalls: Stalls
    ) -> Streamed:
        """The sender's output becomes the receiver's input; they share no pipe."""
        receiver_in, sink = os.pipe2(os.O_CLOEXEC)
        source, sender_out = os.pipe2(os.O_CLOEXEC)
        try:
            self._check()
            receiving = await self._programs.start(receiver, receiver_in, _OUTPUT_LIMIT)
            self._keep(receiving.process)
            self._check()
            sending = await self._programs.start_with(sender, stdin, _OUTPUT_LIMIT, sender_out)
            self._keep(sending.process)
        except BaseException:
            os.close(sink)
            os.close(source)
            raise
        finally:
            os.close(receiver_in)
            os.close(sender_out)
        relay = Relay(self._reactor, source, sink, limit, stalls)
        sending.process.wait().addCallback(lambda _: relay.sender_ended())
        receiving.process.wait().addCallback(lambda _: relay.receiver_ended())
        relayed = await relay.done
        if relayed.end in (End.TOO_LARGE, End.STALLED):
            receiving.process.kill_session()
        late = self._reactor.callLater(self._settling(relayed), receiving.process.kill_session)
        received = await self._finished(receiver, receiving, self._times.whole)
        cancel(late)
        relayed = relayed.judged(satisfied=received.status == 0)
        if relayed.end is not End.COMPLETE or received.status != 0:
            sending.process.kill_session()
        sent = await self._finished(sender, sending, self._times.answer)
        return Streamed(relayed, sent, received)

    def _settling(self, relayed: Relayed) -> float:
        """How long a receiver may work on what it has received.

        Indexing takes longer for a larger pack; but a small one can be made to unpack for hours.
        """
        return self._times.stall + relayed.octets / _SLOWEST_INDEXING

    def _keep(self, process: Process) -> None:
        self._live.add(process)
        process.wait().addCallback(lambda _: self._live.discard(process))
        if self._ended is not None:
            process.kill_session()

    async def _finished(self, command: Command, running: Running, timeout: float) -> Finished:
        try:
            finished, in_time = await self._programs.finish(running, timeout, _GRACE)
        finally:
            self._check()
        if not in_time:
            raise _no_answer(command, timeout)
        return finished

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended


def _no_answer(command: Command, timeout: float) -> Failed:
    words = (word for word in command.argv[1:] if word[0] not in "-/" and "=" not in word)
    return Failed(
        "R105",
        "the workspace's git did not answer",
        why=f"git {next(words, '')} was ended after {timeout:.0f} s",
        fix="see what happens to it: hostctl exec S -- git status",
        exit_code=124,
    )
