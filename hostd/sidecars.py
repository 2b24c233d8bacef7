"""Keeps one sandbox served: starts its sidecar, gets it a session, and replaces it when it dies.

The sidecar is not believed: its messages are READY (a public key), DIAL and a self-test's answer,
33 bytes each; anything else ends it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from hostd.dialler import dial
from hostd.failures import Failed
from hostd.spawner import Process, Spawner
from streams.seqpacket import SeqpacketConnection

_log = Logger()

_MESSAGE_SIZE = 33
_READY, _DIAL, _TESTED = b"R", b"D", b"T"
_DIALS_PER_SECOND = 16
_DIAL_BURST = 64
_FIRST_DELAY, _LAST_DELAY = 0.02, 5.0
_READY_WITHIN = 10.0
_STABLE_AFTER = 30.0

SELFTEST_NAMES = (
    "socket-inet",
    "socket-unix",
    "socket-netlink",
    "socket-vsock",
    "open-file",
    "create-file",
    "fork",
    "exec",
    "setuid",
)


@frozen
class Setting:
    """What every sidecar of one sandbox is started with; descriptors stay hostd's."""

    sandbox: str
    uid: int
    netns: int
    listeners: Callable[[], Awaitable[tuple[int, ...]]]
    control_path: str
    empty_root: str
    cgroups: tuple[str, ...]
    log: int
    configuration: Callable[[], dict[str, Any]]
    # Raises when a protection does not hold; runs between the closed grant and activation.
    probe: Callable[[], Awaitable[None]]
    # Told the pid and session before the sidecar accepts anything.
    started: Callable[[int, str], None]


class Sessions(Protocol):
    """What the supervisor asks of whoever talks to the broker."""

    async def register(self, public_key: bytes) -> str: ...
    async def activate(self, session: str, pid: int) -> None: ...
    async def close(self, session: str, reason: str) -> None: ...


@define
class DialBudget:
    """A token bucket: a sidecar that asks for connections in a loop is made to wait."""

    tokens: float = _DIAL_BURST
    last: float = 0.0

    def spend(self, now: float) -> bool:
        gained = max(0.0, now - self.last) * _DIALS_PER_SECOND
        self.tokens = min(_DIAL_BURST, self.tokens + gained)
        self.last = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@define(eq=False)
class _Life:
    """One sidecar process, from its fork to its end."""

    process: Process
    link: SeqpacketConnection
    ready: Deferred[bytes] = field(factory=Deferred)
    tested: Deferred[bytes] | None = None
    session: str | None = None
    started: float = 0.0


class SidecarSupervisor:
    """`start` returns once the first sidecar serves; later ones come by themselves."""

    def __init__(
        self,
        reactor: Any,
        spawner: Spawner,
        setting: Setting,
        broker: tuple[str, int],
        sessions: Sessions,
    ) -> None:
        self._reactor = reactor
        self._spawner = spawner
        self._setting = setting
        self._broker = broker
        self._sessions = sessions
        self._budget = DialBudget()
        self._life: _Life | None = None
        self._stopped = False
        self._delay = _FIRST_DELAY
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return self._life.process.pid if self._life else None

    @property
    def session(self) -> str | None:
        return self._life.session if self._life else None

    async def start(self) -> None:
        life = await self._spawn()
        try:
            await self._activate(life)
        except BaseException:
            await self._finish(life, "start failed")
            raise
        life.process.wait().addCallback(self._ended, life)

    async def stop(self, reason: str) -> None:
        """A broker that cannot be told does not keep a sandbox alive: its key dies here."""
        self._stopped = True
        if self._life is None:
            return
        life, self._life = self._life, None
        try:
            await self._finish(life, reason)
        except Failed as problem:
            _log.warn("session not revoked: {why}", why=str(problem))

    async def selftest(self) -> list[dict[str, Any]]:
        life = self._life
        if life is None:
            raise Failed("R101", "the sidecar is being replaced; try again")
        life.tested = Deferred()
        life.tested.addTimeout(10, self._reactor)
        life.link.send(json.dumps({"op": "selftest"}).encode())
        results = await life.tested
        return [
            {"name": name, "denied": result == 1}
            for name, result in zip(SELFTEST_NAMES, results, strict=False)
        ]

    async def _spawn(self) -> _Life:
        configuration = os.memfd_create("sidecar", os.MFD_CLOEXEC)
        setting = self._setting
        try:
            with open(configuration, "wb", closefd=False) as file:
                file.write(json.dumps(setting.configuration()).encode())
            os.lseek(configuration, 0, os.SEEK_SET)
            listeners = await setting.listeners()
            process = await self._spawner.sidecar(
                setting.uid,
                setting.empty_root,
                setting.cgroups,
                [setting.netns, configuration, setting.log, *listeners],
            )
        finally:
            os.close(configuration)
        return self._connect(process)

    def _connect(self, process: Process) -> _Life:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(self._setting.control_path)
        link.setblocking(False)
        connection = SeqpacketConnection(
            self._reactor,
            link,
            lambda data, descriptors: self._message(life, data, descriptors),
            lambda: self._link_lost(life),
        )
        life = _Life(process, connection, started=self._reactor.seconds())
        life.ready.addTimeout(_READY_WITHIN, self._reactor)
        self._life = life
        return life

    async def _activate(self, life: _Life) -> None:
        key = await life.ready
        life.session = await self._sessions.register(key)
        await self._setting.probe()
        await self._sessions.activate(life.session, life.process.pid)
        self._setting.started(life.process.pid, life.session)
        life.link.send(b'{"op":"activate"}')

    async def adopt(self, process: Process, session: str | None) -> None:
        """Take over a sidecar that an earlier hostd started; it has gone on serving."""
        life = self._connect(process)
        life.session = session
        life.process.wait().addCallback(self._ended, life)
        await life.ready
        life.link.send(b'{"op":"activate"}')

    def _message(self, life: _Life, data: bytes, descriptors: list[int]) -> None:
        for descriptor in descriptors:  # none is ever expected
            os.close(descriptor)
        kind, payload = data[:1], data[1:]
        if len(data) != _MESSAGE_SIZE or descriptors:
            self._distrust(life)
        elif kind == _READY and not life.ready.called:
            life.ready.callback(payload)
        elif kind == _DIAL:
            self._dial(life)
        elif kind == _TESTED and life.tested is not None and not life.tested.called:
            life.tested.callback(payload)
        else:
            self._distrust(life)

    def _distrust(self, life: _Life) -> None:
        _log.warn("sidecar of {sandbox} broke its protocol", sandbox=self._setting.sandbox)
        life.process.kill_session()

    def _dial(self, life: _Life) -> None:
        if not self._budget.spend(self._reactor.seconds()):
            life.link.send(b'{"op":"dial-failed"}')
            return
        done = dial(self._reactor, self._broker)
        done.addCallbacks(
            lambda connected: self._hand_over(life, connected),
            lambda _: self._refuse_dial(life),
        )

    def _hand_over(self, life: _Life, connected: socket.socket) -> None:
        with connected:
            if life is self._life:
                life.link.send(b'{"op":"connection"}', [connected.fileno()])

    def _refuse_dial(self, life: _Life) -> None:
        if life is self._life:
            life.link.send(b'{"op":"dial-failed"}')

    def _link_lost(self, life: _Life) -> None:
        """The process's end decides what happens; a sidecar without a link is of no use."""
        life.process.kill_session()

    def _ended(self, status: int, life: _Life) -> None:
        if self._stopped or self._life is not life:
            return
        self._life = None
        if self._reactor.seconds() - life.started > _STABLE_AFTER:
            self._delay = _FIRST_DELAY
        _log.warn(
            "sidecar of {sandbox} ended ({status}); another in {delay} s",
            sandbox=self._setting.sandbox,
            status=status,
            delay=self._delay,
        )
        self._reactor.callLater(self._delay, self._replace, life)
        self._delay = min(self._delay * 2, _LAST_DELAY)

    def start_soon(self) -> None:
        """Start without waiting for it, and again until it works."""
        self._reactor.callLater(0, self._replace, None)

    def _replace(self, old: _Life | None) -> None:
        done = Deferred.fromCoroutine(self._start_again(old))
        done.addErrback(lambda failure: self._not_replaced(old, failure))

    async def _start_again(self, old: _Life | None) -> None:
        if self._stopped:
            return
        self.restarts += 1
        if old is not None:
            await self._finish(old, "sidecar replaced")
        await self.start()

    def _not_replaced(self, old: _Life | None, failure: Any) -> None:
        if self._stopped:
            return
        _log.warn("no new sidecar yet: {why}", why=failure.getErrorMessage())
        self._reactor.callLater(self._delay, self._replace, old)
        self._delay = min(self._delay * 2, _LAST_DELAY)

    async def _finish(self, life: _Life, reason: str) -> None:
        life.process.kill_session()
        life.link.close()
        if life.session is not None:
            await self._sessions.close(life.session, reason)
            life.session = None
