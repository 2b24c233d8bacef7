"""The children of a forking process that have not begun yet, or were killed before they began.

Code of a sandbox can hold its child up before the execve: by SIGSTOP, by a lease on the program
(F_SETLEASE in fcntl(2)), by freezing the cgroup. So each child has a deadline, a sandbox has a
limited number of such children, and no child of another sandbox waits for them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from attrs import define, field, frozen

from hostd.process.proc import state

DEADLINE = 10.0  # seconds from the fork to the exec, or to the child's own answer
LONGEST = 60.0  # the same for a child that could run but gets no processor
MOST_OF_ONE_CAUSE = 64
_MAX_PROBLEM = 4000  # below PIPE_BUF: written and read in one piece (pipe(7))
_LAST_ERRNO = 4095  # MAX_ERRNO of the kernel


@frozen
class Problem:
    """What a child says went wrong; `errno` is 0 where no system call failed."""

    text: str
    errno: int = 0

    @classmethod
    def of(cls, error: BaseException) -> Problem:
        number = error.errno if isinstance(error, OSError) else None
        return cls(f"{type(error).__name__}: {error}", number or 0)

    def octets(self) -> bytes:
        """As the child writes it."""
        return f"{self.errno} {self.text}".encode()[:_MAX_PROBLEM]


@define(eq=False)
class Child:
    """`problems` is at its end when the child has exec'ed (O_CLOEXEC). `lasting`: hostd waits for
    the child's own end."""

    number: int
    pid: int
    pidfd: int
    problems: int
    deadline: float
    cause: str
    lasting: bool
    answered: bool = False
    begun: float = field(factory=time.monotonic)

    def starved(self, now: float) -> bool:
        """It is runnable and gets no processor, so no lease, signal or file system holds it up."""
        return state(self.pid) == "R" and now - self.begun < LONGEST

    def problem(self) -> Problem | None:
        """Its text is "" when the pipe is at its end; None when the child says nothing."""
        try:
            said = os.read(self.problems, _MAX_PROBLEM)
        except BlockingIOError:
            return None
        number, _, text = said.decode(errors="replace").partition(" ")
        errno = int(number) if number.isdecimal() else 0
        # Code of the sandbox may have written it; hostd refuses a message with a larger number.
        return Problem(text, errno if errno <= _LAST_ERRNO else 0)

    def kill(self) -> None:
        """Kills it alone, by its pidfd: it may not lead a process group yet."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        for descriptor in (self.problems, self.pidfd):
            if descriptor >= 0:
                os.close(descriptor)
        self.problems = self.pidfd = -1


@define(eq=False)
class Children:
    """The children by pid, from the fork until they have begun or are reaped."""

    _by_pid: dict[int, Child] = field(factory=dict)

    def add(self, child: Child) -> None:
        self._by_pid[child.pid] = child

    def take(self, pid: int) -> Child | None:
        return self._by_pid.pop(pid, None)

    def by_pipe(self) -> dict[int, Child]:
        return {each.problems: each for each in self._waiting() if each.problems >= 0}

    def too_many(self, cause: str) -> bool:
        """Children that were killed and have not ended count as well: each has a pid."""
        same = sum(1 for each in self._by_pid.values() if each.cause == cause)
        return bool(cause) and same >= MOST_OF_ONE_CAUSE

    def kill_waiting(self) -> None:
        for each in self._waiting():
            each.kill()

    def overdue(self, now: float) -> list[Child]:
        return [each for each in self._waiting() if each.deadline <= now]

    def until_next_deadline(self, now: float) -> float | None:
        """Milliseconds until the next deadline, for poll()."""
        deadlines = [each.deadline for each in self._waiting()]
        return max(0.0, min(deadlines) - now) * 1000 + 1 if deadlines else None

    def _waiting(self) -> Iterator[Child]:
        return (each for each in self._by_pid.values() if not each.answered)
