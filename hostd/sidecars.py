"""Keeps one sandbox served: starts its sidecar, gets it a session, and replaces it when it dies
or hangs.

The sidecar is not believed: its messages are READY (a public key), DIAL and a self-test's answer,
33 bytes each; anything else ends it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.messages.sidecar import (
    DIAL,
    READY,
    SERVING,
    SIZE,
    TESTED,
    Activate,
    Connection,
    DialFailed,
    Order,
    Pins,
    ReplacePolicy,
    SelfTest,
    SidecarConfig,
    Verifying,
    format_config,
    format_order,
)
from hostd.failures import Failed
from hostd.messages import Sidecar
from hostd.pipes import file_of
from hostd.proc import wakeups
from hostd.process import Process
from hostd.spawner import Nursery
from limits.buckets import TokenBucket
from streams.dialling import dial
from streams.seqpacket import SeqpacketConnection

_log = Logger()

_DIALS_PER_SECOND = 16.0
_DIAL_WITHIN = 5.0
_DIAL_BURST = 64
_FIRST_DELAY, _LAST_DELAY = 0.02, 5.0
_READY_WITHIN = 10.0
_ANSWERS_WITHIN = 5.0
_STABLE_AFTER = 30.0
_ASLEEP_AFTER = 0.5

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
    configuration: Callable[[], SidecarConfig]
    # Raises when a protection does not hold; runs between the closed grant and activation.
    probe: Callable[[], Awaitable[None]]
    # Told the pid and session before the sidecar accepts anything.
    started: Callable[[int, str], None]


class Sessions(Protocol):
    """What the supervisor asks of whoever talks to the broker."""

    async def register(self, public_key: bytes) -> str: ...
    async def activate(self, session: str, pid: int) -> None: ...
    async def close(self, session: str, reason: str) -> None: ...
    async def close_all(self, reason: str) -> None: ...


@define(eq=False)
class _Life:
    """One sidecar process, from its fork to its end."""

    process: Process
    link: SeqpacketConnection
    ready: Deferred[bytes] = field(factory=Deferred)
    # Self-tests asked for and not answered, in order; also those nobody waits for any more.
    tests: deque[Deferred[bytes]] = field(factory=deque)
    # The same of policies it was given.
    policies: deque[Deferred[bytes]] = field(factory=deque)
    key: bytes = b""
    session: str | None = None
    started: float = 0.0
    serving: bool = False
    slept: int | None = None  # how often it had gone to sleep when it last did after an answer

    def tell(self, order: Order, descriptors: Sequence[int] = ()) -> None:
        self.link.send(format_order(order), descriptors)


class SidecarSupervisor:
    """`start` returns once the first sidecar serves; later ones come by themselves."""

    def __init__(
        self,
        reactor: Any,
        nursery: Nursery,
        setting: Setting,
        broker: tuple[str, int],
        sessions: Sessions,
    ) -> None:
        self._reactor = reactor
        self._nursery = nursery
        self._setting = setting
        self._broker = broker
        self._sessions = sessions
        self._budget = TokenBucket(_DIALS_PER_SECOND, _DIAL_BURST)
        self._life: _Life | None = None
        # Sessions of sidecars that are gone, to be closed before the next one begins.
        self._left: list[str] = []
        self._starting = DeferredLock()
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
        async with self._starting:
            await self._close_left()
            life = await self._spawn()
            try:
                await self._activate(life)
            except BaseException:
                self._end(life)
                raise
            self._serves(life)

    async def stop(self, reason: str) -> None:
        """A broker that cannot be told does not keep a sandbox alive: its key dies here."""
        self._stopped = True
        if self._life is not None:
            self._life.process.kill_session()
        async with self._starting:  # a start under way fails now, and cleans up after itself
            if self._life is not None:
                self._end(self._life)
            await self._sessions.close_all(reason)

    def leave(self) -> None:
        """hostd goes, the sidecar stays: the next hostd finds it by its control socket."""
        self._stopped = True
        if self._life is not None:
            self._life.link.close()

    async def selftest(self) -> list[dict[str, Any]]:
        life = self._life
        if life is None:
            raise Failed("R101", "the sidecar is being replaced; try again")
        try:
            results = await self._test(life)
        except TimedOut:
            raise Failed("R101", "the sidecar does not answer; it is being replaced") from None
        return [
            {"name": name, "denied": result == 1}
            for name, result in zip(SELFTEST_NAMES, results, strict=False)
        ]

    async def replace_policy(
        self, regrant: Callable[[str, bytes], Awaitable[int]], policy: bytes, digest: str
    ) -> int:
        """The broker first, whose word counts; how many connections it cut.

        A sidecar that then serves another policy than the broker is replaced.
        """
        async with self._starting:
            life = self._life
            if life is None or life.session is None or not life.key:
                return 0  # the next one is started with it
            cut = await regrant(life.session, life.key)
            try:
                served = await self._give_policy(life, policy)
            except TimedOut:
                return cut  # and it is being replaced
            if served.hex() != digest:
                self._distrust(life)
            return cut

    def _give_policy(self, life: _Life, policy: bytes) -> Deferred[bytes]:
        served: Deferred[bytes] = Deferred()
        served.addTimeout(_ANSWERS_WITHIN, self._reactor)
        served.addErrback(lambda failure: self._too_late(life, failure))
        life.policies.append(served)
        file = file_of(policy)
        try:
            life.tell(ReplacePolicy(), [file])
        finally:
            os.close(file)
        return served

    def check(self) -> None:
        """Ask whether it still answers; the answer itself does not matter here.

        One that sleeps, and has slept since it last answered, cannot hang; it is let sleep.
        """
        life = self._life
        if life is None or not life.serving or life.tests:
            return
        slept = wakeups(life.process.pid)
        if slept is None or slept != life.slept:
            asked = self._test(life)
            asked.addCallbacks(lambda _: self._note_sleep(life), lambda why: why.trap(TimedOut))

    def _note_sleep(self, life: _Life) -> None:
        """A moment later: it has only just answered."""
        life.slept = None

        def note() -> None:
            if life is self._life:
                life.slept = wakeups(life.process.pid)

        self._reactor.callLater(_ASLEEP_AFTER, note)

    def adopt(self, process: Process | None, session: str | None) -> None:
        """Take over a sidecar that an earlier hostd started, and that has gone on serving; one
        that has ended or does not answer is replaced."""
        if process is None:
            self._left += [] if session is None else [session]
            self.start_soon()
            return
        life = self._connect(process)
        life.session = session
        self._serves(life)
        life.ready.addCallbacks(lambda _: life.tell(Activate()), lambda _: self._stuck(life))

    def pin(self, keys: frozenset[bytes]) -> None:
        """The broker's keys, as they are from now on; one that starts later gets them anyway."""
        if self._life is not None:
            self._life.tell(Pins(keys=keys))

    def verifying(self, seconds: int) -> None:
        """For so long at most, what is refused is not slowed down; 0: from now on it is."""
        if self._life is not None:
            self._life.tell(Verifying(seconds=seconds))

    def start_soon(self) -> None:
        """Start without waiting for it, and again until it works."""
        self._reactor.callLater(0, self._replace)

    # One life

    async def _spawn(self) -> _Life:
        self._check_wanted()
        setting = self._setting
        configuration = file_of(format_config(setting.configuration()))
        try:
            listeners = await setting.listeners()
            process = await self._nursery.ask_sidecar(
                Sidecar(uid=setting.uid, empty_root=setting.empty_root, cgroups=setting.cgroups),
                [setting.netns, configuration, setting.log, *listeners],
            )
        finally:
            os.close(configuration)
        return self._connect(process)

    def _connect(self, process: Process) -> _Life:
        """A sidecar that cannot be reached is one that ends before it is ready."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        try:
            link.connect(self._setting.control_path)
        except OSError as problem:
            _log.warn("sidecar not reached: {why}", why=str(problem))
            process.kill_session()
        connection = SeqpacketConnection(
            self._reactor,
            link,
            lambda data, descriptors: self._message(life, data, descriptors),
            lambda: self._link_lost(life),
        )
        life = _Life(process, connection, started=self._reactor.seconds())
        life.ready.addTimeout(_READY_WITHIN, self._reactor)
        process.wait().addCallback(lambda _: _never_ready(life))
        self._life = life
        return life

    async def _activate(self, life: _Life) -> None:
        try:
            key = await life.ready
        except TimedOut:
            raise Failed("R101", "the sidecar did not become ready") from None
        self._check_wanted()
        life.session = await self._sessions.register(key)
        self._check_wanted()
        await self._setting.probe()
        self._check_wanted()
        await self._sessions.activate(life.session, life.process.pid)
        self._setting.started(life.process.pid, life.session)
        life.tell(Activate())

    def _check_wanted(self) -> None:
        if self._stopped:
            raise Failed("R106", "the sandbox is being ended")

    def _serves(self, life: _Life) -> None:
        life.serving = True
        life.process.wait().addCallback(self._ended, life)

    def _end(self, life: _Life) -> None:
        life.process.kill_session()
        life.link.close()
        if life.session is not None:
            self._left.append(life.session)
        if self._life is life:
            self._life = None

    async def _close_left(self) -> None:
        while self._left:
            await self._sessions.close(self._left[-1], "sidecar replaced")
            self._left.pop()

    # What it says

    def _message(self, life: _Life, data: bytes, descriptors: list[int]) -> None:
        for descriptor in descriptors:  # none is ever expected
            os.close(descriptor)
        kind, payload = data[:1], data[1:]
        if len(data) != SIZE or descriptors:
            self._distrust(life)
        elif kind == READY and not life.ready.called:
            life.key = payload
            life.ready.callback(payload)
        elif kind == DIAL[:1]:
            self._dial(life)
        elif kind == TESTED and life.tests:
            _answer(life.tests, payload)
        elif kind == SERVING and life.policies:
            _answer(life.policies, payload)
        else:
            self._distrust(life)

    def _distrust(self, life: _Life) -> None:
        _log.warn("sidecar of {sandbox} broke its protocol", sandbox=self._setting.sandbox)
        life.process.kill_session()

    def _test(self, life: _Life) -> Deferred[bytes]:
        """A sidecar that cannot do the quickest thing in time cannot serve either."""
        tested: Deferred[bytes] = Deferred()
        tested.addTimeout(_ANSWERS_WITHIN, self._reactor)
        tested.addErrback(lambda failure: self._too_late(life, failure))
        life.tests.append(tested)
        life.tell(SelfTest())
        return tested

    def _too_late(self, life: _Life, failure: Failure) -> Failure:
        self._stuck(life)
        return failure

    def _stuck(self, life: _Life) -> None:
        if life.process.status is None:
            _log.warn("sidecar of {sandbox} does not answer", sandbox=self._setting.sandbox)
            life.process.kill_session()

    def _dial(self, life: _Life) -> None:
        if self._budget.take(self._reactor.seconds()):
            life.tell(DialFailed())
            return
        done = Deferred.fromCoroutine(dial(self._reactor, *self._broker, _DIAL_WITHIN))
        done.addCallbacks(
            lambda connected: self._hand_over(life, connected),
            lambda _: self._refuse_dial(life),
        )

    def _hand_over(self, life: _Life, connected: socket.socket) -> None:
        with connected:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if life is self._life:
                life.tell(Connection(), [connected.fileno()])

    def _refuse_dial(self, life: _Life) -> None:
        if life is self._life:
            life.tell(DialFailed())

    # Its end, and the next one

    def _link_lost(self, life: _Life) -> None:
        """The process's end decides what happens; a sidecar without a link is of no use."""
        life.process.kill_session()

    def _ended(self, status: int, life: _Life) -> None:
        if self._stopped or self._life is not life:
            return
        self._end(life)
        if self._reactor.seconds() - life.started > _STABLE_AFTER:
            self._delay = _FIRST_DELAY
        _log.warn(
            "sidecar of {sandbox} ended ({status}); another in {delay} s",
            sandbox=self._setting.sandbox,
            status=status,
            delay=self._delay,
        )
        self._replace_later()

    def _replace_later(self) -> None:
        self._reactor.callLater(self._delay, self._replace)
        self._delay = min(self._delay * 2, _LAST_DELAY)

    def _replace(self) -> None:
        if not self._stopped:
            self.restarts += 1
            Deferred.fromCoroutine(self.start()).addErrback(self._not_replaced)

    def _not_replaced(self, failure: Failure) -> None:
        if not self._stopped:
            _log.warn("no new sidecar yet: {why}", why=failure.getErrorMessage())
            self._replace_later()


def _answer(waiting: deque[Deferred[bytes]], payload: bytes) -> None:
    """To who asked first; who has given up meanwhile is passed over."""
    asked = waiting.popleft()
    if not asked.called:
        asked.callback(payload)


def _never_ready(life: _Life) -> None:
    """Whoever waits for a sidecar that has ended is told at once."""
    if not life.ready.called:
        life.ready.errback(Failed("R101", "the sidecar ended before it was ready"))
