"""The loop of a process that forks for hostd. It never waits for a single child.

hostd executes it afresh, so it holds no host key; it has one thread and no reactor. Each request of
`requests` has one answer, and a second one when a child that began has ended. All forked children
go through `gitmoat.confine`.
"""

from __future__ import annotations

import array
import fcntl
import gc
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NoReturn

from gitmoat.shape import Misshapen
from hostd.process.children import DEADLINE, Child, Children, Problem
from hostd.process.requests import (
    LONGEST_MESSAGE,
    MOST_DESCRIPTORS,
    Alive,
    Answer,
    Answered,
    Asked,
    Command,
    Ended,
    Ping,
    Probe,
    Refused,
    Request,
    Started,
    number_of,
    packed,
    unpack_asked,
)

_AT_ONCE = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_HELD_UP = "R117"
OUT_OF_THE_WAY = 64


class TooManyStarting(Exception):
    """A sandbox has as many children that have not begun as it may have."""


class ForkServer:
    """Each request is a fork; it is answered when that child has exec'ed or is confined.

    What holds a child up (SIGSTOP, a lease on its program (F_SETLEASE in fcntl(2)), a frozen
    cgroup, a slow file system) delays the answer to its own request and to no other.
    """

    # Requests whose child hostd waits for; the children of the others answer by themselves.
    lasting: tuple[type[Request], ...]

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._children = Children()
        self._unsent: deque[tuple[bytes, int]] = deque()
        self._poller = select.poll()  # unlike select() it takes descriptors of any number

    def serve(self) -> None:
        wakeup_read, wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poller.register(wakeup_read, select.POLLIN)
        try:
            self._tell(0, Alive())
            while self._round(wakeup_read):
                pass
        except ConnectionError:
            return  # hostd was killed before it had read every answer
        finally:
            self._children.kill_waiting()  # hostd will not hear that they began

    def _round(self, wakeup: int) -> bool:
        """False when hostd has ended. Requests come last: a fork reuses descriptors' numbers."""
        wanted = select.POLLOUT if self._unsent else select.POLLIN
        self._poller.register(self._link.fileno(), wanted)
        ready = dict(self._poller.poll(self._children.until_next_deadline(time.monotonic())))
        for pipe, child in self._children.by_pipe().items():
            if pipe in ready:
                self._hear(child)
        if wakeup in ready:
            os.read(wakeup, 4096)
            self._report_exits()
        self._end_overdue()
        if self._link.fileno() not in ready:
            return True
        if self._unsent:
            self._send_rest()
            return True
        return self._answer_one()

    def _hear(self, child: Child) -> None:
        problem = child.problem()
        if problem is None:
            return
        if problem.text:
            self._refuse(child, problem)
        elif child.lasting:
            self._children.take(child.pid)
            self._begun(child)
        else:  # the child has answered by itself, or its exit status will say that it has not
            self._forget_pipe(child)

    def _begun(self, child: Child) -> None:
        """The pidfd was opened before the child could be reaped: it names this child."""
        child.answered = True
        self._forget_pipe(child)
        pidfd, child.pidfd = child.pidfd, -1
        self._tell(child.number, Started(pid=child.pid), pidfd)

    def _refuse(self, child: Child, problem: Problem, code: str = "") -> None:
        """The child stays in the table until it is reaped."""
        child.answered = True
        self._forget_pipe(child)
        self._tell(child.number, Refused(why=problem.text, errno=problem.errno, code=code))

    def _forget_pipe(self, child: Child) -> None:
        if child.problems >= 0:
            self._poller.unregister(child.problems)
            os.close(child.problems)
            child.problems = -1

    def _end_overdue(self) -> None:
        """Its pipe is read once more: a child may have begun just before its deadline."""
        now = time.monotonic()
        for child in self._children.overdue(now):
            if child.problems >= 0:
                self._hear(child)
            if not child.answered and child.starved(now):
                child.deadline = now + 1.0
            elif not child.answered:
                child.kill()
                what = f"the program did not start within {DEADLINE:.0f} s and was ended"
                self._refuse(child, Problem(what), code=_HELD_UP)

    def _report_exits(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = os.waitstatus_to_exitcode(status)
            child = self._children.take(pid)
            if child is not None:
                self._ended(child, number)
            self._tell(0, Ended(pid=pid, status=number))

    def _ended(self, child: Child, status: int) -> None:
        """Called before its end is told: hostd must know the child first."""
        problem = child.problem() if child.problems >= 0 else None
        if not child.answered and problem is not None and problem.text:
            self._refuse(child, problem)
        elif not child.answered and child.lasting:
            self._begun(child)
            return
        elif not child.answered and status != 0:
            self._refuse(child, Problem(f"the child that was to answer ended with {status}"))
        self._forget_pipe(child)
        child.close()

    def _answer_one(self) -> bool:
        data, descriptors, flags, _ = socket.recv_fds(self._link, LONGEST_MESSAGE, MOST_DESCRIPTORS)
        if not data:
            return False
        number = number_of(data)
        try:
            if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
                raise Misshapen("", "request too large")
            asked = unpack_asked(data)
            if isinstance(asked.request, Ping):
                self._tell(number, Alive())
            else:
                self._fork(asked, descriptors)
        except TooManyStarting as problem:
            self._tell(number, Refused(why=str(problem), code=_HELD_UP))
        except (OSError, ValueError, Misshapen) as problem:
            self._tell(number, Refused(why=str(problem)))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def send(self, number: int, answer: Answer, descriptors: Iterable[int] = ()) -> None:
        """For a child that answers by itself: if hostd does not read, only that child waits."""
        socket.send_fds(self._link, [packed(Answered(number=number, answer=answer))], descriptors)

    def _tell(self, number: int, answer: Answer, pidfd: int = -1) -> None:
        """Never waits: what hostd does not read now is kept, with its pidfd."""
        self._unsent.append((packed(Answered(number=number, answer=answer)), pidfd))
        self._send_rest()

    def _send_rest(self) -> None:
        while self._unsent:
            data, pidfd = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pidfd]))]
            try:
                self._link.sendmsg([data], rights if pidfd >= 0 else [], _AT_ONCE)
            except BlockingIOError:
                return
            self._unsent.popleft()
            if pidfd >= 0:
                os.close(pidfd)

    def _fork(self, asked: Asked, descriptors: list[int]) -> None:
        request = asked.request
        cause = request.cause if isinstance(request, Command | Probe) else ""
        if self._children.too_many(cause):
            raise TooManyStarting(
                "too many programs of this sandbox are being started and do not begin"
            )
        problems_read, low = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                problems_write = duplicate_above(low, OUT_OF_THE_WAY)
            finally:
                os.close(low)
            try:
                pid, rest = self.fork(request, descriptors)
                if pid == 0:
                    self._child(asked.number, rest, descriptors, problems_write)
            finally:
                os.close(problems_write)
            self._keep(asked, cause, pid, problems_read)
        except BaseException:
            os.close(problems_read)
            raise

    def _keep(self, asked: Asked, cause: str, pid: int, problems: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)  # it has not been reaped: the pid is its own
            raise
        os.set_blocking(problems, False)
        self._poller.register(problems, select.POLLIN)
        deadline, lasting = time.monotonic() + DEADLINE, isinstance(asked.request, self.lasting)
        self._children.add(Child(asked.number, pid, pidfd, problems, deadline, cause, lasting))

    def fork(self, request: Request, descriptors: list[int]) -> tuple[int, Request]:
        """As os.fork(), and what is left for the child to do."""
        return os.fork(), request

    def answer(self, number: int, request: Request, descriptors: list[int], problems: int) -> None:
        """What the child of a request does; what it raises is written to `problems`."""
        raise NotImplementedError

    def _child(
        self, number: int, request: Request, descriptors: list[int], problems: int
    ) -> NoReturn:
        try:
            if isinstance(request, self.lasting):
                self._link.close()  # a child that is held up would keep it open after our end
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.answer(number, request, descriptors, problems)
            os._exit(0)
        except BaseException as problem:  # noqa: BLE001 - told to the parent, whatever it is
            os.write(problems, Problem.of(problem).octets())
        finally:
            os._exit(125)


def run(forker: Callable[[socket.socket], ForkServer], prepare: Callable[[], None]) -> None:
    """Serves on the link that argv names, until hostd has ended.

    gc.freeze() keeps the collector from writing to pages that are shared with children.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    prepare()
    gc.collect()
    gc.freeze()
    gc.disable()
    forker(link).serve()


def is_v1(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, "tasks"))


def join_cgroups(directories: Iterable[str]) -> None:
    """On v1 `tasks` moves this thread, the only one (cgroups(7)), without the lock that
    cgroup.procs takes over all thread groups."""
    for directory in directories:
        file = "tasks" if is_v1(directory) else "cgroup.procs"
        with open(os.path.join(directory, file), "wb") as members:
            members.write(b"0")


def duplicate_above(descriptor: int, lowest: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
