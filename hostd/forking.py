"""The loop of a process that forks for hostd: one request, one child, one answer.

It is exec'ed fresh by hostd, so it holds no host key; it has one thread and no reactor. hostd
sends one JSON request with descriptors per message; the answer is {"id", "pid"} or
{"id", "error"}, and later {"exit": pid, "status": n}. All forked children go through `confine`.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from confine import linux

_MAX_MESSAGE = 256 * 1024
_MAX_DESCRIPTORS = 16
_MAX_PROBLEM = 4000  # what a pipe takes, and gives, in one piece
OUT_OF_THE_WAY = 64

Request = dict[str, Any]
Task = Callable[[Request, list[int], int], None]


class Forker:
    """One request at a time: fork, wait until the child has exec'ed or is confined, answer.

    A task is what a child does: with its request, its descriptors, and one that problems go to.
    """

    tasks: Mapping[str, Task]
    lasting: Collection[str]  # tasks whose child hostd waits for; the others answer by themselves

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        wakeup_read, wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            while True:
                ready, _, _ = select.select([self._link.fileno(), wakeup_read], [], [])
                if wakeup_read in ready:
                    os.read(wakeup_read, 4096)
                    self._report_exits()
                if self._link.fileno() in ready and not self._answer_one():
                    return
        except ConnectionError:
            return  # hostd was killed before it read all we told it

    def _report_exits(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.send({"exit": pid, "status": os.waitstatus_to_exitcode(status)})

    def _answer_one(self) -> bool:
        data, descriptors, flags, _ = socket.recv_fds(self._link, _MAX_MESSAGE, _MAX_DESCRIPTORS)
        if not data:
            return False
        request: Request = {}
        try:
            request = json.loads(data)
            if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
                raise ValueError("request too large")
            self._fork(request, descriptors)
        except (OSError, ValueError, KeyError) as problem:
            self.send({"id": request.get("id"), "error": str(problem)})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def send(self, message: Request, descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._link, [json.dumps(message).encode()], descriptors)

    def _fork(self, request: Request, descriptors: list[int]) -> None:
        task = self.tasks[request["op"]]
        problems_read, low = os.pipe2(os.O_CLOEXEC)
        try:
            problems_write = duplicate_above(low, OUT_OF_THE_WAY)
            os.close(low)
            try:
                pid = self._fork_there(task, request, descriptors, problems_write)
            finally:
                os.close(problems_write)
            problem = os.read(problems_read, _MAX_PROBLEM).decode(errors="replace")
        finally:
            os.close(problems_read)
        if problem:
            self.send({"id": request["id"], "error": problem})
        elif request["op"] in self.lasting:
            self._send_child(request["id"], pid)

    def _fork_there(
        self, task: Task, request: Request, descriptors: list[int], problems: int
    ) -> int:
        joined = self._enter_pid_namespace(request, descriptors)
        try:
            pid = self.fork(request)
            if pid == 0:
                self._child(task, request, descriptors, problems)
            return pid
        finally:
            if joined:
                linux.setns(self._own_pid_namespace, linux.CLONE_NEWPID)

    def fork(self, request: Request) -> int:
        return os.fork()

    def _send_child(self, number: int, pid: int) -> None:
        """The pidfd is opened before the child can be reaped, so it never means another one."""
        pidfd = os.pidfd_open(pid)
        try:
            self.send({"id": number, "pid": pid}, (pidfd,))
        finally:
            os.close(pidfd)

    def _enter_pid_namespace(self, request: Request, descriptors: list[int]) -> bool:
        """setns(CLONE_NEWPID) counts for children only; a process stays where it is."""
        if "pid" not in request.get("namespaces", ()):
            return False
        linux.setns(descriptors[request["room"]], linux.CLONE_NEWPID)
        return True

    def _child(
        self,
        task: Task,
        request: Request,
        descriptors: list[int],
        problems: int,
    ) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            task(request, descriptors, problems)
            os._exit(0)
        except BaseException as problem:  # noqa: BLE001 - the child's only way to say why
            os.write(problems, f"{type(problem).__name__}: {problem}".encode()[:_MAX_PROBLEM])
        finally:
            os._exit(125)


def run(forker: Callable[[socket.socket], Forker], prepare: Callable[[], None]) -> None:
    """Serve on the link that argv names, until hostd has gone."""
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


def join_cgroups(directories: list[str]) -> None:
    """`tasks` moves this thread, the only one there is, and holds nobody else up."""
    for directory in directories:
        file = "tasks" if is_v1(directory) else "cgroup.procs"
        with open(os.path.join(directory, file), "wb") as members:
            members.write(b"0")


def duplicate_above(descriptor: int, lowest: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
