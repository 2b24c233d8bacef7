"""A small process that forks: sidecars (already imported) and commands for sandboxes.

It is exec'ed fresh by hostd, so it holds no host key; it has one thread and no reactor. hostd
sends one JSON request with descriptors per message; the zygote answers {"id", "pid"} or
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
from collections.abc import Callable
from typing import Any, NoReturn

from confine import linux, mounts, profiles
from confine.process import Confinement, Limits, confine
from confine.seccomp import compile_profile
from hostd import attempts, netns
from sidecar import service
from sidecar.budgets import DESCRIPTORS
from sidecar.inherited import Inherited
from sidecar.warmup import warm

_MAX_MESSAGE = 256 * 1024
_MAX_DESCRIPTORS = 16

_MIB = 1024 * 1024
_OUT_OF_THE_WAY = 64

Request = dict[str, Any]


class Zygote:
    """One request at a time: fork, wait until the child has exec'ed or is confined, answer."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._seccomp = {
            profile.name: compile_profile(profile)
            for profile in (profiles.SIDECAR, profiles.SANDBOX)
        }
        self._tasks: dict[str, Callable[[Request, list[int], int], None]] = {
            "listen": self._listen,
            "sidecar": self._sidecar,
            "execute": self._execute,
            "probe": self._probe,
            "survey": self._survey,
            "idmap": self._idmap,
        }

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
            self._send({"exit": pid, "status": os.waitstatus_to_exitcode(status)})

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
            self._send({"id": request.get("id"), "error": str(problem)})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _send(self, message: Request, descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._link, [json.dumps(message).encode()], descriptors)

    def _fork(self, request: Request, descriptors: list[int]) -> None:
        task = self._tasks[request["op"]]
        problems_read, low = os.pipe2(os.O_CLOEXEC)
        problems_write = _duplicate_above(low, _OUT_OF_THE_WAY)
        os.close(low)
        joined = self._enter_pid_namespace(request, descriptors)
        try:
            pid = _fork_for(request)
            if pid == 0:
                self._child(task, request, descriptors, problems_write)
        finally:
            if joined:
                linux.setns(self._own_pid_namespace, linux.CLONE_NEWPID)
        os.close(problems_write)
        with open(problems_read, encoding="utf-8") as pipe:
            problem = pipe.read()
        if problem:
            self._send({"id": request["id"], "error": problem})
        elif request["op"] in ("sidecar", "execute", "probe"):
            self._send_child(request["id"], pid)

    def _send_child(self, number: int, pid: int) -> None:
        """The pidfd is opened before the child can be reaped, so it never means another one."""
        pidfd = os.pidfd_open(pid)
        try:
            self._send({"id": number, "pid": pid}, (pidfd,))
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
        task: Callable[[Request, list[int], int], None],
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
            os.write(problems, f"{type(problem).__name__}: {problem}".encode()[:4000])
        finally:
            os._exit(125)

    def _listen(self, request: Request, descriptors: list[int], problems: int) -> None:
        linux.setns(descriptors[0], linux.CLONE_NEWNET)
        netns.set_sysctls()
        netns.add_synthetic_route()
        made = netns.make_listeners(request["uid"], request["credential"], request["control"])
        self._send({"id": request["id"], "ok": True}, made)

    def _survey(self, request: Request, descriptors: list[int], problems: int) -> None:
        linux.setns(descriptors[0], linux.CLONE_NEWNET)
        self._send({"id": request["id"], "found": netns.survey()})

    def _idmap(self, request: Request, descriptors: list[int], problems: int) -> None:
        table = mounts.user_namespace(tuple(request["uids"]), tuple(request["gids"]))
        self._send({"id": request["id"], "ok": True}, (table,))

    def _probe(self, request: Request, descriptors: list[int], problems: int) -> None:
        """As `_execute`, but what runs after the confinement is attempts and their report."""
        self._settle(request, descriptors, problems)
        os.close(problems)
        attempts.report(request["attempts"], 1)

    def _confine_command(self, request: Request) -> None:
        confine(
            Confinement(
                uid=request["uid"],
                gid=request["uid"],
                limits=Limits(**request["limits"]),
                seccomp=self._seccomp["sandbox"],
                dumpable=request["op"] == "execute",
            )
        )

    def _sidecar(self, request: Request, descriptors: list[int], problems: int) -> None:
        """Descriptors: netns, configuration, log, then the listeners of `Inherited`."""
        linux.setns(descriptors[0], linux.CLONE_NEWNET)
        with open(descriptors[1], "rb", closefd=False) as file:
            configuration = file.read()
        _join_cgroups(request["cgroups"])
        os.setsid()
        os.dup2(descriptors[2], 1)
        os.dup2(descriptors[2], 2)
        listeners = descriptors[3:]
        linux.close_all_but([1, 2, problems, *listeners])
        confine(
            Confinement(
                uid=request["uid"],
                gid=request["uid"],
                limits=Limits(
                    open_files=DESCRIPTORS,
                    processes=1,
                    file_size=16 * _MIB,
                    address_space=1024 * _MIB,
                ),
                seccomp=self._seccomp["sidecar"],
                root=request["empty_root"],
                writable=(),
            )
        )
        os.close(problems)
        service.main(configuration, Inherited(*listeners))

    def _execute(self, request: Request, descriptors: list[int], problems: int) -> None:
        self._settle(request, descriptors, problems)
        linux.reset_signals()
        os.execvpe(request["argv"][0], request["argv"], request["environment"])  # noqa: S606

    def _settle(self, request: Request, descriptors: list[int], problems: int) -> None:
        """Descriptors: first those that become 0, 1, 2, …; then, if any, the room's pidfd."""
        _join_cgroups(request["cgroups"])
        kept: int = request["keep"]
        if "room" in request:
            _enter_namespaces(descriptors[request["room"]], request["namespaces"])
        os.setsid()
        os.chdir(request["cwd"])
        _arrange(descriptors[:kept], problems)
        if request.get("tty"):
            linux.take_terminal(0)
        if "person" in request:
            _become_person(request["uid"], **request["person"])
        elif request["uid"]:
            self._confine_command(request)


def _become_person(uid: int, gid: int, groups: list[int]) -> None:
    """A program of the host's owner, outside every sandbox: theirs, with no way to more."""
    limits = Limits(open_files=1024)
    confine(Confinement(uid=uid, gid=gid, groups=tuple(groups), limits=limits, seccomp=None))


def _enter_namespaces(room: int, names: list[str]) -> None:
    kinds = 0
    if "net" in names:
        kinds |= linux.CLONE_NEWNET
    if "mount" in names:
        kinds |= linux.CLONE_NEWNS | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
        kinds |= linux.CLONE_NEWCGROUP
    linux.setns(room, kinds)


def _fork_for(request: Request) -> int:
    """A child that begins in its v2 cgroup, where the kernel can do that; that one is then off the
    list. To join it later waits for every processor of the host.

    Not a sidecar, which lives on as what was forked here, random numbers and all.
    """
    if request["op"] in ("execute", "probe"):
        for directory in request["cgroups"]:
            if not _is_v1(directory):
                return _fork_into(directory, request["cgroups"])
    return os.fork()


def _fork_into(directory: str, cgroups: list[str]) -> int:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        pid = linux.fork_into(descriptor)
    except OSError:  # an old kernel, a filter, a group that is full: the child joins by itself
        return os.fork()
    finally:
        os.close(descriptor)
    cgroups.remove(directory)
    return pid


def _is_v1(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, "tasks"))


def _join_cgroups(directories: list[str]) -> None:
    """`tasks` moves this thread, the only one there is, and holds nobody else up."""
    for directory in directories:
        file = "tasks" if _is_v1(directory) else "cgroup.procs"
        with open(os.path.join(directory, file), "wb") as members:
            members.write(b"0")


def _arrange(descriptors: list[int], problems: int) -> None:
    """Make the descriptors 0, 1, 2, … and close all others but the one problems go to."""
    # First all out of the way, so that no dup2 overwrites a source.
    high = [_duplicate_above(descriptor, _OUT_OF_THE_WAY) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
    linux.close_all_but([*range(len(descriptors)), problems])


def _duplicate_above(descriptor: int, lowest: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    linux.keep_large_blocks()
    warm()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(link).serve()


if __name__ == "__main__":
    main()
    sys.exit(0)
