"""hostd's side of the two processes that fork for it: typed requests out, processes back."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from hostd.failures import Failed
from streams.seqpacket import SeqpacketConnection

_log = Logger()
_LISTENERS = 9  # as many as `sidecar.inherited.Inherited` has
_MAX_QUEUE = 4096  # requests of as many sandboxes as wait while another one starts
_MAX_REQUEST = 160 * 1024  # what one message of a socket's usual buffer holds
_PATIENCE = 30.0
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


def _where_our_code_is() -> dict[str, str]:
    """A checkout that is not installed is found by its path, there as in hostd."""
    parent = Path(__file__).resolve().parents[1]
    installed = parent.name in ("site-packages", "dist-packages")
    return {} if installed else {"PYTHONPATH": str(parent)}


@define(eq=False)
class Process:
    """A child of one of the two. The pidfd names it even after its pid is used again."""

    pid: int
    pidfd: int
    status: int | None = None
    _waiters: list[Deferred[int]] = field(factory=list)

    def wait(self) -> Deferred[int]:
        done: Deferred[int] = Deferred()
        if self.status is None:
            self._waiters.append(done)
        else:
            done.callback(self.status)
        return done

    def signal_session(self, number: int) -> None:
        """Also what it started: each command leads its own process group."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """It alone. By its pidfd: one that has ended, and whose pid is free again, stays ended."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def kill_session(self) -> None:
        self.signal_session(signal.SIGKILL)

    def ended(self, status: int) -> None:
        if self.status is not None:
            return
        self.status = status
        os.close(self.pidfd)
        self.pidfd = -1
        for waiter in self._waiters:
            waiter.callback(status)
        self._waiters.clear()


@implementer(IReadDescriptor)
class Watch:
    """Waits for a process that neither of the two reports on.

    Who forked it died, and hostd adopted it (PR_SET_CHILD_SUBREAPER); or an earlier hostd started
    it, and init reaps it: then its status is not ours to know.
    """

    def __init__(self, reactor: Any, process: Process) -> None:
        self._reactor = reactor
        self._process = process
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._process.pidfd

    def logPrefix(self) -> str:
        return "orphan"

    def doRead(self) -> None:
        self._reactor.removeReader(self)
        try:
            found = os.waitid(os.P_PIDFD, self.fileno(), os.WEXITED)
        except ChildProcessError:
            self._process.ended(-signal.SIGKILL)
            return
        status = found.si_status if found is not None else 0
        exited = found is not None and found.si_code == os.CLD_EXITED
        self._process.ended(status if exited else -status)

    def connectionLost(self, reason: object) -> None:
        """Also called for everything the reactor knows when hostd stops; that ends no process."""
        if not alive(self.fileno()):
            self.doRead()


def alive(pidfd: int) -> bool:
    """A pidfd becomes readable when its process has ended."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return not poller.poll(0)


@frozen
class Room:
    """Whose namespaces a command joins: the pidfd of that room's first process."""

    pidfd: int
    namespaces: tuple[str, ...]


@frozen
class Person:
    """An account of this host; only its own programs are run with its groups."""

    gid: int
    groups: tuple[int, ...]


@frozen
class Command:
    """uid 0 is only for hostd's own tools (bwrap, nft, rm); all else is confined."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    stdio: Sequence[int]
    uid: int = 0
    cwd: str = "/"
    room: Room | None = None
    cgroups: Sequence[str] = ()
    tty: bool = False
    limits: Mapping[str, int | None] = Factory(lambda: {"open_files": 4096})
    # Instead of a program: what `hostd.attempts` has, in the place of one.
    attempts: Sequence[Sequence[Any]] | None = None
    person: Person | None = None

    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = {
            "op": "execute" if self.attempts is None else "probe",
            "attempts": self.attempts,
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "cwd": self.cwd,
            "uid": self.uid,
            "cgroups": list(self.cgroups),
            "tty": self.tty,
            "limits": dict(self.limits),
            "keep": len(self.stdio),
        }
        if self.person is not None:
            request["person"] = {"gid": self.person.gid, "groups": list(self.person.groups)}
        if self.room is not None:
            request |= {"room": len(self.stdio), "namespaces": list(self.room.namespaces)}
        return request

    def descriptors(self) -> list[int]:
        return [*self.stdio, *([self.room.pidfd] if self.room else [])]


Answer = tuple[dict[str, Any], list[int]]


class Forks:
    """Starts a process that forks and asks it for children. Requests wait while it starts."""

    module: str

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._next = 0
        self._waiting: dict[int, Deferred[Answer]] = {}
        self._processes: dict[int, Process] = {}
        self._orphans: dict[int, Process] = {}
        self._link: SeqpacketConnection | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._child = self._run_child(theirs.fileno())
        self._link = SeqpacketConnection(
            self._reactor,
            ours,
            self._message,
            self._lost,
            max_fds=_LISTENERS,
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
        if self._link is not None:
            self._link.close()
        if self._child is not None:
            self._child.wait()

    async def _spawn(self, request: dict[str, Any], descriptors: Sequence[int]) -> Process:
        answer, received = await self._ask(request, descriptors)
        process = Process(answer["pid"], received[0])
        self._processes[process.pid] = process
        return process

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> Deferred[Answer]:
        if self._link is None:
            raise Failed("R101", "the process that starts sandboxes is not running")
        self._next += 1
        message = json.dumps(request | {"id": self._next}).encode()
        if len(message) > _MAX_REQUEST:
            raise Failed("C105", "the command and its environment are too long", exit_code=126)
        done: Deferred[Answer] = Deferred()
        self._waiting[self._next] = done
        timer = self._reactor.callLater(_PATIENCE, self._stuck)
        self._link.send(message, descriptors)
        return done.addBoth(_cancel, timer)

    def _stuck(self) -> None:
        """It answers one after the other: one that hangs would hang every sandbox of the host."""
        if self._child is not None:
            _log.error("{module} does not answer", module=self.module)
            self._child.kill()

    def _message(self, data: bytes, descriptors: list[int]) -> None:
        message = json.loads(data)
        if "exit" in message:
            self._exited(message["exit"], message["status"])
            return
        done = self._waiting.pop(message["id"])
        if "error" in message:
            done.errback(Failed("R101", "could not start a process", why=message["error"]))
        else:
            done.callback((message, descriptors))

    def _exited(self, pid: int, status: int) -> None:
        process = self._processes.pop(pid, None)
        if process is not None:
            process.ended(status)

    def _lost(self) -> None:
        """Another one first: who hears that his request failed may need it to clean up."""
        self._link = None
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        waiting, self._waiting = self._waiting, {}
        if not self._stopping:
            _log.warn("{module} ended; starting another", module=self.module)
            self._adopt_orphans()
            self.start()
        for done in waiting.values():
            done.errback(Failed("R101", "the process that starts sandboxes ended"))

    def _adopt_orphans(self) -> None:
        orphans, self._processes = self._processes, {}
        for pid, process in orphans.items():
            self._orphans[pid] = process
            process.wait().addCallback(self._orphan_ended, pid)
            Watch(self._reactor, process)

    def _orphan_ended(self, status: int, pid: int) -> None:
        del self._orphans[pid]

    def waits_for(self, pid: int) -> bool:
        return pid in self._orphans or pid == self.pid


class Spawner(Forks):
    """The launcher: commands, tools, and what is done and seen in namespaces."""

    module = "hostd.launcher"

    async def listen(self, netns: int, uid: int, credential: str, control: str) -> list[int]:
        """Sysctls set and listeners made in a network namespace; descriptors as `Inherited`."""
        request = {"op": "listen", "uid": uid, "credential": credential, "control": control}
        _, descriptors = await self._ask(request, [netns])
        return descriptors

    async def survey(self, netns: int) -> dict[str, list[str]]:
        answer, _ = await self._ask({"op": "survey"}, [netns])
        found: dict[str, list[str]] = answer["found"]
        return found

    async def idmap(self, uids: tuple[int, int], gids: tuple[int, int]) -> int:
        """A descriptor for an idmapped mount: (id on disk, id shown)."""
        _, descriptors = await self._ask({"op": "idmap", "uids": uids, "gids": gids}, [])
        return descriptors[0]

    async def execute(self, command: Command) -> Process:
        return await self._spawn(command.request(), command.descriptors())


class Nursery(Forks):
    """The zygote: sidecars."""

    module = "hostd.zygote"

    async def sidecar(
        self, uid: int, empty_root: str, cgroups: Sequence[str], descriptors: Sequence[int]
    ) -> Process:
        request = {
            "op": "sidecar",
            "uid": uid,
            "empty_root": empty_root,
            "cgroups": list(cgroups),
        }
        return await self._spawn(request, descriptors)


def reap_strays(*known: Forks) -> None:
    """Children that nobody waits for: started by a process that died before it said so."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, _ENDED)) is not None:
            if any(each.waits_for(found.si_pid) for each in known):
                return  # its own watch takes it, now; the rest is left to the next round
            os.waitpid(found.si_pid, 0)


def _cancel(result: Any, timer: Any) -> Any:
    if timer.active():
        timer.cancel()
    return result
