"""The launcher: forks everything but sidecars, from commands to probes and listeners.

It imports little, because a fork copies page tables, and it forks a dozen times for each sandbox.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import NoReturn

from attrs import evolve

from gitmoat.confine import linux, mounts, profiles
from gitmoat.confine.confining import Confinement, Limits, confine
from gitmoat.confine.seccomp import compile_profile
from hostd.network import netns
from hostd.process.fork_server import (
    OUT_OF_THE_WAY,
    ForkServer,
    duplicate_above,
    is_v1,
    join_cgroups,
    run,
)
from hostd.process.requests import (
    Command,
    Done,
    HostUser,
    Join,
    Listen,
    MapIds,
    Probe,
    Request,
    Survey,
)
from hostd.verify.attempts import reporting

# oom_score_adj (proc(5)): where memory is short the kernel ends commands first and our daemons
# last. 500 adds half of the machine's memory to what a command is taken to use.
_OOM_SCORE, _HOST_USER_OOM_SCORE = 500, 0
_TOO_LATE = 125


class Launcher(ForkServer):
    lasting = (Command, Probe)

    def __init__(self, link: socket.socket) -> None:
        super().__init__(link)
        self._pid = os.getpid()
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._seccomp = compile_profile(profiles.SANDBOX)

    def fork(self, request: Request, descriptors: list[int]) -> tuple[int, Request]:
        """setns(CLONE_NEWPID) counts for children only; a process stays where it is (setns(2))."""
        if not isinstance(request, Command | Probe):
            return os.fork(), request
        if request.room is None or "pid" not in request.room.namespaces:
            return _fork_into(request)
        pid = -1
        linux.setns(descriptors[-1], linux.CLONE_NEWPID)
        try:
            pid, rest = _fork_into(request)
        finally:
            if pid != 0:  # the child cannot go back to an ancestor's namespace (setns(2))
                linux.setns(self._own_pid_namespace, linux.CLONE_NEWPID)
        return pid, rest

    def answer(self, number: int, request: Request, descriptors: list[int], problems: int) -> None:
        match request:
            case Command() | Probe():
                self._answer_child(request, descriptors, problems)
            case Listen():
                self._answer_listen(number, request, *descriptors)
            case Survey():
                self._answer_survey(number, *descriptors)
            case MapIds():
                self._answer_map_ids(number, request)
            case _:
                raise ValueError("not for the launcher")

    def _answer_listen(self, number: int, request: Listen, namespace: int) -> None:
        linux.setns(namespace, linux.CLONE_NEWNET)
        netns.set_sysctls()
        netns.add_synthetic_route()
        made = netns.make_listeners(request.uid, request.credential, request.control)
        self.send(number, Done(), made)

    def _answer_survey(self, number: int, namespace: int) -> None:
        linux.setns(namespace, linux.CLONE_NEWNET)
        self.send(number, netns.survey())

    def _answer_map_ids(self, number: int, request: MapIds) -> None:
        uids, gids = request.uids, request.gids
        table = mounts.user_namespace((uids.on_disk, uids.shown), (gids.on_disk, gids.shown))
        self.send(number, Done(), (table,))

    def _answer_child(self, child: Command | Probe, descriptors: list[int], problems: int) -> None:
        self._end_with_launcher()
        join_cgroups(child.cgroups)
        if child.uid:
            host_user = isinstance(child, Command) and child.person is not None
            linux.offer_as_victim(_HOST_USER_OOM_SCORE if host_user else _OOM_SCORE)
        if child.room is not None:
            _enter_namespaces(descriptors.pop(), child.room)
        os.setsid()
        os.chdir(child.cwd if isinstance(child, Command) else "/")
        _arrange(descriptors, problems)
        if isinstance(child, Command):
            self._run_command(child)
        self._confine(child)
        os.close(problems)
        linux.end_with_parent(0)
        reporting.report(child.attempts, 1)

    def _end_with_launcher(self) -> None:
        """Until it has begun, a child ends with the launcher, because hostd tells whoever asked
        for it that it did not begin. hostd inherits it, also from another pid namespace
        (pid_namespaces(7)), and kills what it had not heard of; the kernel does that at once.

        To be called again after each change of uid. What an execve itself waits for, a lease on
        the program for example, is not covered: the setting would last beyond it.
        """
        linux.end_with_parent(signal.SIGKILL)
        if os.getppid() not in (self._pid, 0):  # 0 is a parent outside of our pid namespace
            os._exit(_TOO_LATE)

    def _run_command(self, command: Command) -> NoReturn:
        if command.tty:
            linux.take_terminal(0)
        if command.person is not None:
            _become_host_user(command.uid, command.person)
        else:
            self._confine(command)
        self._end_with_launcher()
        linux.reset_signals()
        linux.end_with_parent(0)
        os.execvpe(command.argv[0], command.argv, command.environment)  # noqa: S606

    def _confine(self, child: Command | Probe) -> None:
        if child.uid == 0:
            return
        confine(
            Confinement(
                uid=child.uid,
                gid=child.uid,
                limits=child.limits,
                seccomp=self._seccomp,
                dumpable=isinstance(child, Command),
            )
        )


def _become_host_user(uid: int, user: HostUser) -> None:
    """For a program of the host's owner, outside every sandbox: it has the owner's privileges and
    can get no others."""
    limits = Limits(open_files=1024)
    confine(Confinement(uid=uid, gid=user.gid, groups=user.groups, limits=limits, seccomp=None))


def _enter_namespaces(pidfd: int, join: Join) -> None:
    kinds = 0
    if "net" in join.namespaces:
        kinds |= linux.CLONE_NEWNET
    if "mount" in join.namespaces:
        kinds |= linux.CLONE_NEWNS | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
        kinds |= linux.CLONE_NEWCGROUP
    linux.setns(pidfd, kinds)


def _fork_into(request: Command | Probe) -> tuple[int, Request]:
    """A child that begins in its v2 cgroup, which is then taken off the list.

    CLONE_INTO_CGROUP (clone3(2)) spares the child the write to cgroup.procs, which takes
    cgroup_threadgroup_rwsem and so waits for an RCU grace period (kernel/cgroup/cgroup.c).
    """
    for directory in request.cgroups:
        if not is_v1(directory):
            return _fork_into_group(directory, request)
    return os.fork(), request


def _fork_into_group(directory: str, request: Command | Probe) -> tuple[int, Request]:
    rest = tuple(each for each in request.cgroups if each != directory)
    joined = evolve(request, cgroups=rest)  # before the fork: a child that raised would go on here
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        pid = linux.fork_into(descriptor)
    except OSError:  # ENOSYS, a seccomp filter's EPERM, EAGAIN of a full group: it joins by itself
        return os.fork(), request
    finally:
        os.close(descriptor)
    return pid, joined


def _arrange(descriptors: list[int], problems: int) -> None:
    """Makes the descriptors 0, 1, 2, … and closes all others but `problems`."""
    # They are first moved to high numbers, so that no dup2 overwrites a source.
    high = [duplicate_above(descriptor, OUT_OF_THE_WAY) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
    linux.close_all_but([*range(len(descriptors)), problems])


if __name__ == "__main__":
    run(Launcher, prepare=lambda: None)
    sys.exit(0)
