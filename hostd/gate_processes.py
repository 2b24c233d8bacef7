"""How the git gate's processes run: within limits, and ended together.

The untrusted uid's git belongs to whoever wrote the workspace: its owner can stop it, trace it
and make it say anything. So every question to it has a time limit, every answer a size limit,
and an answer ends with the process that was asked, whoever else still holds its pipes.
"""

from __future__ import annotations

import os
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from hostd.config import GateTimes
from hostd.failures import Failed
from hostd.gate_relay import End, Relay, Relayed, Stalls
from hostd.pipes import collect
from hostd.process import Process
from hostd.programs import Finished, Program, file_of
from hostd.spawner import Command, Spawner

_OUTPUT_LIMIT = 4 << 20
_OWN_OUTPUT_LIMIT = 32 << 20
_PROBLEM_LIMIT = 64 << 10
_GRACE = 1.0
_SLOWEST_INDEXING = 1e6  # octets per second
_SLOWEST_WRITING = 100  # files per second


@frozen
class Stdio:
    """Descriptors that the admin's hostctl reads; output of git goes there as it comes."""

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


@frozen(eq=False)
class _Running:
    program: Program
    process: Process
    output: Deferred[bytes]
    problems: Deferred[bytes]

    def cut(self) -> None:
        self.output.cancel()
        self.problems.cancel()


class GateProcesses:
    """Those of one operation of the gate; `end` kills all of them and lets no other start."""

    def __init__(self, reactor: Any, spawner: Spawner, times: GateTimes) -> None:
        self._reactor = reactor
        self._spawner = spawner
        self._times = times
        self._live: set[Process] = set()
        self._ended: Failed | None = None
        self._timer: Any = None

    def begin(self) -> None:
        self._timer = self._reactor.callLater(self._times.whole, self._too_long)

    def end(self, problem: Failed) -> None:
        """The operation fails with this, whatever its processes would have said."""
        self._ended = self._ended or problem
        for process in tuple(self._live):
            process.kill_session()

    def close(self) -> None:
        _stopped(self._timer)

    def _too_long(self) -> None:
        self.end(
            Failed(
                "R105",
                f"the git gate gave up after {self._times.whole} s",
                why="one operation may not take longer",
                fix="`whole` in [gate] of hostd.toml sets how long it may",
                exit_code=124,
            )
        )

    async def ask_helper(self, program: Program, stdin: bytes = b"") -> Finished:
        return await self._ask(program, stdin, self._times.whole, _OWN_OUTPUT_LIMIT)

    async def tidy(self, program: Program) -> None:
        """Also after the end: what is left behind is left behind by what was killed."""
        ended, self._ended = self._ended, None
        try:
            await self._ask(program, b"", self._times.stall, _OUTPUT_LIMIT)
        finally:
            self._ended = self._ended or ended

    async def ask_untrusted(
        self, program: Program, stdin: bytes = b"", *, files: int = 0, room: int = 0
    ) -> Finished:
        """`files`: how many it has to write, which takes as long as they are many.

        `room`: how many octets an honest answer may have; never fewer than are always kept.
        """
        timeout = self._times.answer + files / _SLOWEST_WRITING
        return await self._ask(program, stdin, timeout, max(room, _OUTPUT_LIMIT))

    async def _ask(self, program: Program, stdin: bytes, timeout: float, limit: int) -> Finished:
        source = file_of(stdin)
        try:
            running = await self._run(program, source, limit)
        finally:
            os.close(source)
        return await self._finished(running, timeout)

    async def talk(self, program: Program, stdio: Stdio) -> int:
        """Run it with its output going to the admin."""
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            process = await self._start(program.command([null, stdio.output, stdio.problems]))
        finally:
            os.close(null)
        status = await process.wait()
        self._check()
        return status

    async def deliver(self, sender: Program, stdin: bytes, receiver: Program) -> Streamed:
        """From the helper: it may think as long as it likes before it speaks."""
        stalls = Stalls(sender=self._times.whole, receiver=self._times.stall)
        return await self._stream(sender, stdin, receiver, None, stalls)

    async def take(self, sender: Program, stdin: bytes, receiver: Program, limit: int) -> Streamed:
        """From the untrusted uid, up to a limit."""
        stalls = Stalls(sender=self._times.stall, receiver=self._times.stall)
        return await self._stream(sender, stdin, receiver, limit, stalls)

    async def _stream(
        self, sender: Program, stdin: bytes, receiver: Program, limit: int | None, stalls: Stalls
    ) -> Streamed:
        """sender's output → receiver's input; neither holds a pipe that the other has."""
        receiver_in, sink = os.pipe2(os.O_CLOEXEC)
        source, sender_out = os.pipe2(os.O_CLOEXEC)
        given = file_of(stdin)
        try:
            receiving = await self._run(receiver, receiver_in, _OUTPUT_LIMIT)
            sending = await self._run(sender, given, _OUTPUT_LIMIT, sink=sender_out)
        except BaseException:
            os.close(sink)
            os.close(source)
            raise
        finally:
            for descriptor in (receiver_in, sender_out, given):
                os.close(descriptor)
        relay = Relay(self._reactor, source, sink, limit, stalls)
        return await self._streamed(sending, receiving, relay)

    async def _streamed(self, sending: _Running, receiving: _Running, relay: Relay) -> Streamed:
        sending.process.wait().addCallback(lambda _: relay.sender_ended())
        receiving.process.wait().addCallback(lambda _: relay.receiver_ended())
        relayed = await relay.done
        if relayed.end in (End.TOO_LARGE, End.STALLED):
            receiving.process.kill_session()
        late = self._reactor.callLater(self._settling(relayed), receiving.process.kill_session)
        received = await self._finished(receiving, self._times.whole)
        _stopped(late)
        relayed = relayed.judged(satisfied=received.status == 0)
        if relayed.end is not End.COMPLETE or received.status != 0:
            sending.process.kill_session()
        return Streamed(relayed, await self._finished(sending, self._times.answer), received)

    def _settling(self, relayed: Relayed) -> float:
        """How long a receiver may work on what it has got: indexing takes as long as it is large.

        A small pack can be made to unfold for hours.
        """
        return self._times.stall + relayed.octets / _SLOWEST_INDEXING

    async def _run(
        self, program: Program, source: int, limit: int, sink: int | None = None
    ) -> _Running:
        """`source` and `sink` stay the caller's."""
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        output = collect(self._reactor, out_r, limit)
        problems = collect(self._reactor, err_r, _PROBLEM_LIMIT)
        stdio = [source, out_w if sink is None else sink, err_w]
        try:
            process = await self._start(program.command(stdio))
        finally:
            os.close(out_w)
            os.close(err_w)
        return _Running(program, process, output, problems)

    async def _start(self, command: Command) -> Process:
        self._check()
        process = await self._spawner.execute(command)
        self._live.add(process)
        process.wait().addCallback(lambda _: self._live.discard(process))
        if self._ended is not None:
            process.kill_session()
        return process

    async def _finished(self, running: _Running, timeout: float) -> Finished:
        late = self._reactor.callLater(timeout, running.process.kill_session)
        status = await running.process.wait()
        in_time = _stopped(late)
        # Whoever still holds the pipes now is not the program that was asked.
        cut = self._reactor.callLater(_GRACE, running.cut)
        finished = Finished(status, await running.output, await running.problems)
        _stopped(cut)
        self._check()
        if not in_time:
            raise _no_answer(running.program, timeout)
        return finished

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended


def _stopped(timer: Any) -> bool:
    """Whether it had not fired."""
    active: bool = timer.active()
    if active:
        timer.cancel()
    return active


def _no_answer(program: Program, timeout: float) -> Failed:
    words = (word for word in program.argv[1:] if word[0] not in "-/" and "=" not in word)
    return Failed(
        "R105",
        "the workspace's git did not answer",
        why=f"git {next(words, '')} was ended after {timeout:.0f} s",
        fix="see what happens to it: hostctl exec S -- git status",
        exit_code=124,
    )
