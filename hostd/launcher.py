"""A process that forks all but sidecars: commands, the host's own tools, looks and listeners.

It is small, because it forks a dozen times for each sandbox.
"""

from __future__ import annotations

import os
import socket
import sys

from confine import linux, mounts, profiles
from confine.process import Confinement, Limits, confine
from confine.seccomp import compile_profile
from hostd import attempts, netns
from hostd.forking import (
    OUT_OF_THE_WAY,
    Forker,
    Request,
    duplicate_above,
    is_v1,
    join_cgroups,
    run,
)

# Who is ended where memory is short: commands before all else, our daemons last. Half of the
# machine's memory is added to what a command has.
_FIRST_VICTIM, _PERSONS = 500, 0


class Launcher(Forker):
    lasting = ("execute", "probe")

    def __init__(self, link: socket.socket) -> None:
        super().__init__(link)
        self._seccomp = compile_profile(profiles.SANDBOX)
        self.tasks = {
            "listen": self._listen,
            "execute": self._execute,
            "probe": self._probe,
            "survey": self._survey,
            "idmap": self._idmap,
        }

    def fork(self, request: Request) -> int:
        """A child that begins in its v2 cgroup, where the kernel can do that; that one is then off
        the list. To join it later waits for every processor of the host."""
        cgroups: list[str] = request.get("cgroups", [])
        for directory in cgroups:
            if not is_v1(directory):
                return _fork_into(directory, cgroups)
        return os.fork()

    def _listen(self, request: Request, descriptors: list[int], problems: int) -> None:
        linux.setns(descriptors[0], linux.CLONE_NEWNET)
        netns.set_sysctls()
        netns.add_synthetic_route()
        made = netns.make_listeners(request["uid"], request["credential"], request["control"])
        self.send({"id": request["id"], "ok": True}, made)

    def _survey(self, request: Request, descriptors: list[int], problems: int) -> None:
        linux.setns(descriptors[0], linux.CLONE_NEWNET)
        self.send({"id": request["id"], "found": netns.survey()})

    def _idmap(self, request: Request, descriptors: list[int], problems: int) -> None:
        table = mounts.user_namespace(tuple(request["uids"]), tuple(request["gids"]))
        self.send({"id": request["id"], "ok": True}, (table,))

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
                seccomp=self._seccomp,
                dumpable=request["op"] == "execute",
            )
        )

    def _execute(self, request: Request, descriptors: list[int], problems: int) -> None:
        self._settle(request, descriptors, problems)
        linux.reset_signals()
        os.execvpe(request["argv"][0], request["argv"], request["environment"])  # noqa: S606

    def _settle(self, request: Request, descriptors: list[int], problems: int) -> None:
        """Descriptors: first those that become 0, 1, 2, …; then, if any, the room's pidfd."""
        join_cgroups(request["cgroups"])
        kept: int = request["keep"]
        if request["uid"]:
            linux.offer_as_victim(_PERSONS if "person" in request else _FIRST_VICTIM)
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


def _arrange(descriptors: list[int], problems: int) -> None:
    """Make the descriptors 0, 1, 2, … and close all others but the one problems go to."""
    # First all out of the way, so that no dup2 overwrites a source.
    high = [duplicate_above(descriptor, OUT_OF_THE_WAY) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
    linux.close_all_but([*range(len(descriptors)), problems])


if __name__ == "__main__":
    run(Launcher, prepare=lambda: None)
    sys.exit(0)
