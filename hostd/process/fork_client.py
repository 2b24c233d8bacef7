"""hostd's side of a process that forks: sends requests, takes answers, replaces the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

import hostd
from gitmoat.listeners import LISTENERS
from gitmoat.net.transport.seqpacket import SeqpacketConnection
from hostd.deferreds import cancel
from hostd.failures import Failed, NotStarted
from hostd.process.children import DEADLINE, LONGEST
from hostd.process.handle import Process, Watch
from hostd.process.proc import boot_ticks, start_time
from hostd.process.requests import (
    LONGEST_REQUEST,
    Alive,
    Asked,
    Ended,
    Ping,
    Refused,
    Request,
    Started,
    packed,
    unpack_answered,
)

_log = Logger()
_MAX_QUEUE = 4096  # requests of as many sandboxes as wait while another one starts
_ANSWER = DEADLINE + 2.0  # the process has the deadline; this is for one that does not keep it
_PING_TIMEOUT = 20.0
_STARTING = 60.0  # on a busy machine the imports of a sidecar take long
_ENDING = 5.0
_AGAIN = 1.0
_LOOK_AGAIN = 0.02
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


def _where_our_code_is() -> dict[str, str]:
    """PYTHONPATH of a checkout that is not installed."""
    parent = Path(hostd.__path__[0]).resolve().parent
    installed = parent.name in ("site-packages", "dist-packages")
    return {} if installed else {"PYTHONPATH": str(parent)}


T = TypeVar("T")


@define(eq=False)
class _Awaited(Generic[T]):
    """A request that waits for an answer of this kind, and for the descriptors with it."""

    kind: type[T]
    done: Deferred[tuple[T, list[int]]] = field(factory=Deferred)

    def answered(self, answer: object, descriptors: list[int]) -> None:
        if isinstance(answer, Refused):
            self.done.errback(_failed(answer))
        elif isinstance(answer, self.kind):
            self.done.callback((answer, descriptors))
        else:
            _end_unwanted(answer, descriptors)
            self.done.errback(
                Failed("R101", "the process that starts sandboxes gave a wrong answer")
            )


@define(eq=False)
class _EndedServer:
    """A process that has ended or was killed, the requests it had not answered, its children."""

    child: subprocess.Popen[bytes] | None
    since: int
    waiting: dict[int, _Awaited[Any]]
    processes: dict[int, Process]
    give_up: float = 0.0


def _failed(refused: Refused) -> Failed:
    if refused.code:
        return Failed(refused.code, refused.why)
    return NotStarted(refused.why, refused.errno)


class ForkClient:
    """Starts a process that forks, and asks it for children. Requests wait while it starts.

    A late answer fails its own request only. The process is replaced only when it does not answer
    a ping: a single sandbox can delay an answer, and all sandboxes need the process.
    """

    module: str

    def __init__(self, reactor: Any, siblings: list[ForkClient] | None = None) -> None:
        """`siblings`: all clients of this hostd; none reaps a child that another waits for."""
        self._reactor = reactor
        self._siblings: list[ForkClient] = [] if siblings is None else siblings
        self._siblings.append(self)
        self._since = 0
        self._again: Any = None
        self._next = 0
        self._waiting: dict[int, _Awaited[Any]] = {}
        self._processes: dict[int, Process] = {}
        self._orphans: dict[int, Process] = {}
        self._link: SeqpacketConnection | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._ready = False
        self._bounds: dict[int, Any] = {}
        self._late: set[int] = set()
        self._ping_timer: Any = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._child = self._run_child(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self.wait_for_first_word()
        self._link = SeqpacketConnection(
            self._reactor,
            ours,
            self._message,
            self._lost,
            max_fds=len(LISTENERS),
            max_queue=_MAX_QUEUE,
        )

    def _run_child(self, link: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", self.module, str(link)],
            stdin=subprocess.DEVNULL,
            pass_fds=[link],
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8", **_where_our_code_is()},
        )

    def stop(self) -> None:
        self._stopping = True
        self._stop_timers()
        if self._link is not None:
            self._link.close()
        if self._child is not None:
            try:
                self._child.wait(_ENDING)
            except subprocess.TimeoutExpired:
                self._child.kill()

    async def _start(self, request: Request, descriptors: Sequence[int]) -> Process:
        started, received = await self._ask(request, descriptors, Started)
        process = Process(started.pid, received[0])
        self._processes[process.pid] = process
        return process

    def _ask(
        self, request: Request, descriptors: Sequence[int], kind: type[T]
    ) -> Deferred[tuple[T, list[int]]]:
        if self._link is None:
            raise Failed("R101", "the process that starts sandboxes is not running")
        if not all(map(_is_open, descriptors)):
            # sendmsg would fail with EBADF, and the link that all sandboxes share would be lost.
            raise Failed("R106", "the sandbox has ended")
        number = self._number()
        message = packed(Asked(number=number, request=request))
        if len(message) > LONGEST_REQUEST:
            raise Failed("C105", "the command and its environment are too long", exit_code=126)
        self._since = self._since if self._waiting else boot_ticks()
        self._waiting[number] = awaited = _Awaited(kind)
        if self._ready:
            self._bound(number)
        self._link.send(message, descriptors)
        return awaited.done

    def _number(self) -> int:
        self._next += 1
        return self._next

    # Deadlines and pings

    def wait_for_first_word(self) -> None:
        """The time limits of requests begin when it has said `alive` for the first time."""
        self._ready = False
        self._ping_timer = self._reactor.callLater(_STARTING, self._no_answer)

    def _bound(self, number: int) -> None:
        self._bounds[number] = self._reactor.callLater(_ANSWER, self._slow, number)

    def _slow(self, number: int) -> None:
        """Either the machine is busy, or the process does not keep deadlines: it is pinged."""
        self._bounds[number] = self._reactor.callLater(LONGEST - DEADLINE, self._overdue, number)
        self._ping()

    def _overdue(self, number: int) -> None:
        self._late.add(number)
        self._ping()

    def _ping(self) -> None:
        if self._link is not None and not self._ping_timer.active():
            self._ping_timer = self._reactor.callLater(_PING_TIMEOUT, self._no_answer)
            self._link.send(packed(Asked(number=self._number(), request=Ping())))

    def _answered_ping(self, number: int) -> None:
        """It takes messages in their order: it has read every request before this ping."""
        cancel(self._ping_timer)
        if not self._ready:
            self._ready = True
            for each in self._waiting:
                self._bound(each)
        for each in sorted(each for each in self._late if each < number):
            what = "the program did not start in time"
            self._taken(each).done.errback(Failed("R117", what, why="nothing was reported of it"))
        if self._late:
            self._ping()

    def _no_answer(self) -> None:
        """A frozen child can keep its end of the link open, so no end of file is waited for."""
        if self._link is not None:
            _log.error("{module} does not answer", module=self.module)
            self._link.close()
            self._lost()

    def _taken(self, number: int) -> _Awaited[Any]:
        self._late.discard(number)
        bound = self._bounds.pop(number, None)
        if bound is not None:
            cancel(bound)
        return self._waiting.pop(number)

    def _stop_timers(self) -> None:
        for timer in (self._ping_timer, self._again, *self._bounds.values()):
            if timer is not None:
                cancel(timer)
        self._bounds.clear()
        self._late.clear()

    # Its answers

    def _message(self, data: bytes, descriptors: list[int]) -> None:
        said = unpack_answered(data)
        match said.answer:
            case Ended(pid=pid, status=status):
                self._exited(pid, status)
            case Alive():
                self._answered_ping(said.number)
            case answer if said.number in self._waiting:
                self._taken(said.number).answered(answer, descriptors)
            case answer:
                _end_unwanted(answer, descriptors)

    def _exited(self, pid: int, status: int) -> None:
        process = self._processes.pop(pid, None)
        if process is not None:
            process.ended(status)

    def _lost(self) -> None:
        """The next process is started first: those whose requests fail may need it to clean up."""
        gone = _EndedServer(self._child, self._since, self._waiting, self._processes)
        gone.give_up = self._reactor.seconds() + _ENDING
        self._link, self._child, self._waiting, self._processes = None, None, {}, {}
        self._orphans |= gone.processes
        self._stop_timers()
        if gone.child is not None:
            gone.child.kill()
        if not self._stopping:
            _log.warn("{module} ended; starting another", module=self.module)
            self._start_again()
        self._when_ended(gone)

    def _when_ended(self, gone: _EndedServer) -> None:
        """hostd adopts its children when it has ended (PR_SET_CHILD_SUBREAPER(2const)). A process
        that is stuck in a system call may not end for long: its children are left to
        `reap_unawaited`."""
        ended = gone.child is None or gone.child.poll() is not None
        if not ended and self._reactor.seconds() < gone.give_up:
            self._reactor.callLater(_LOOK_AGAIN, self._when_ended, gone)
            return
        if not self._stopping:
            self._adopt(gone.processes)
            if gone.waiting:
                self._kill_unreported(gone.since)
        for awaited in gone.waiting.values():
            awaited.done.errback(Failed("R101", "the process that starts sandboxes ended"))

    def _start_again(self) -> None:
        """Tries until there is memory, a pid and a descriptor; meanwhile requests are refused."""
        try:
            self.start()
        except OSError as problem:
            _log.error("{module} does not start: {why}", module=self.module, why=str(problem))
            self._again = self._reactor.callLater(_AGAIN, self._start_again)

    def _kill_unreported(self, since: int) -> None:
        """Kills children that it had forked and not reported: their requests fail. They are
        children of hostd by now, and began after the oldest request that was not answered."""
        for pid in _children():
            began = start_time(pid)
            if began is None or began < since or any(k.waits_for(pid) for k in self._siblings):
                continue
            with contextlib.suppress(ProcessLookupError):
                leads = os.getpgid(pid) == pid
                (os.killpg if leads else os.kill)(pid, signal.SIGKILL)

    def _adopt(self, processes: dict[int, Process]) -> None:
        for pid, process in processes.items():
            process.wait().addCallback(self._orphan_ended, pid)
            Watch(self._reactor, process)

    def _orphan_ended(self, status: int, pid: int) -> None:
        del self._orphans[pid]

    def waits_for(self, pid: int) -> bool:
        """Also for children of a process that has just ended, before its end is known here."""
        return pid in self._orphans or pid in self._processes or pid == self.pid


def _children() -> set[int]:
    """hostd's children, of all its threads; no child is reaped meanwhile, so each pid is right."""
    found: set[int] = set()
    for each in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= set(map(int, (each / "children").read_text(encoding="ascii").split()))
    return found


def _is_open(descriptor: int) -> bool:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETFD) >= 0
    except (OSError, ValueError):
        return False


def reap_unawaited(*known: ForkClient) -> None:
    """Reaps children that no client waits for: their parent ended before it reported them."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, _ENDED)) is not None:
            if any(each.waits_for(found.si_pid) for each in known):
                return  # `Watch` reaps this one now; the others are reaped in the next round
            os.waitpid(found.si_pid, 0)


def _end_unwanted(answer: object, descriptors: list[int]) -> None:
    """For an answer that no request waits for: a process that began after all is killed."""
    for descriptor in descriptors:
        if isinstance(answer, Started):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
