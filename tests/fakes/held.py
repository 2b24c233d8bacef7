"""What a broker's request can wait for, held until the test lets it go: no time has to pass."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any
from weakref import ref

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from broker.credentials.providers.credential import Credential, CredentialRequest
from broker.sessions.admission import Admission, Ticket
from gitmoat.audit.journal import Journal
from gitmoat.identity.secret import Secret
from gitmoat.wire.hostname import HostName
from netpolicy.egress_rules.addresses import Address
from tests.waiting import PATIENCE

_ADDRESS = "203.0.113.5"


class HeldTime:
    """The reactor, but that its time passes in `advance` alone; what is due at once is done.

    With `names_held` no thread looks a name up before `let_names_go`.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._clock = Clock()
        self._lookups: list[Callable[[], object]] = []
        self.names_held = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def seconds(self) -> float:
        return self._clock.seconds()

    def callLater(self, delay: float, call: Any, *args: Any, **named: Any) -> Any:
        clock = self._clock if delay else self._reactor
        return clock.callLater(delay, call, *args, **named)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def getThreadPool(self) -> Any:
        return self if self.names_held else self._reactor.getThreadPool()

    def callInThreadWithCallback(self, *call: Any, **named: Any) -> None:
        pool = self._reactor.getThreadPool()
        self._lookups.append(lambda: pool.callInThreadWithCallback(*call, **named))

    @property
    def names_wanted(self) -> int:
        return len(self._lookups)

    def let_names_go(self) -> None:
        lookups, self._lookups = self._lookups, []
        for each in lookups:
            each()


class HeldDisk:
    """A journal's sync. In the reactor's own thread it cannot be held, and is only counted."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._works = journal._sync
        self._asked, self._go = Event(), Event()
        self.by_reactor = 0

    def hold(self) -> None:
        self._journal._sync = self._sync

    def _sync(self, descriptor: int) -> None:
        if current_thread() is main_thread():
            self.by_reactor += 1
        else:
            self._asked.set()
            self._go.wait(PATIENCE)
        self._works(descriptor)

    @property
    def wanted(self) -> bool:
        return self._asked.is_set()

    def let_go(self) -> None:
        self._journal._sync = self._works
        self._go.set()


@define(eq=False)
class HeldTurn:
    """The broker's only turn, which somebody else has until `let_go`."""

    _admission: Admission
    _turn: Ticket = field(factory=lambda: Ticket(("another host", "another"), lambda: None))
    taken: int = 0

    def hold(self) -> None:
        assert self._admission.ask(self._turn) and self._turn.running
        self.taken = 1

    def let_go(self) -> None:
        self.taken = 0
        self._admission.leave(self._turn)


@define(eq=False)
class HeldCredentials:
    """A provider. It keeps no credential that it has given away; `freed` when nobody does."""

    held: bool = False
    has_another: bool = False  # after a 401
    password: bytes = b"held-password"
    needs: int = 0
    waiting: list[Deferred[Credential]] = field(factory=list)
    _given: list[ref[Credential]] = field(factory=list)

    def credential(self, request: CredentialRequest) -> Deferred[Credential]:
        self.needs += 1
        if not self.held:
            return succeed(self._made())
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def refused(self, request: CredentialRequest, credential: Credential) -> bool:
        return self.has_another

    def let_go(self) -> None:
        self.held = False
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.callback(self._made())

    def _made(self) -> Credential:
        made = Credential("bot", Secret(self.password))
        self._given.append(ref(made))
        return made

    @property
    def given(self) -> int:
        return len(self._given)

    @property
    def freed(self) -> bool:
        return all(each() is None for each in self._given)


@define(eq=False)
class HeldNames:
    """A resolver whose every name leads to one address outside."""

    held: bool = False
    asked: int = 0
    waiting: list[Deferred[list[Address]]] = field(factory=list)

    def resolve(self, host: HostName, session: str) -> Deferred[list[Address]]:
        self.asked += 1
        if not self.held:
            return succeed([ip_address(_ADDRESS)])
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def let_go(self) -> None:
        self.held = False
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.callback([ip_address(_ADDRESS)])


class SilentServer:
    """Takes connections and says nothing."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self._taken: list[socket.socket] = []
        self._octets = 0
        self.port: int = self._listening.getsockname()[1]

    @property
    def connections(self) -> int:
        try:
            while True:
                self._taken.append(self._listening.accept()[0])
        except BlockingIOError:
            return len(self._taken)

    @property
    def octets(self) -> int:
        if self.connections:
            for each in self._taken:
                each.setblocking(False)
                self._octets += _available(each)
        return self._octets

    async def close(self) -> None:
        for each in (*self._taken, self._listening):
            each.close()


def _available(sock: socket.socket) -> int:
    found = 0
    try:
        while data := sock.recv(1 << 16):
            found += len(data)
    except (BlockingIOError, ConnectionResetError):
        pass
    return found


class FullServer:
    """Its backlog is full: whoever connects now gets no answer, not even a refusal (tcp(7))."""

    connections = octets = 0

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port: int = self._listening.getsockname()[1]
        self._fills = socket.create_connection(("127.0.0.1", self.port))
        self.own: int = self._fills.getsockname()[1]

    async def close(self) -> None:
        self._fills.close()
        self._listening.close()


def sockets(port: int, leave_out: int = 0) -> int:
    """How many TCP sockets of this machine lead to the port, connecting ones included.

    `leave_out`: a port from which one may. A socket that was closed has no inode any more,
    whatever TCP still has to do for it.
    """
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    found = 0
    for row in rows:
        ours, theirs = (int(each.rpartition(":")[2], 16) for each in row[1:3])
        found += theirs == port and ours != leave_out and row[9] != "0"
    return found
