"""Keeps one sandbox served: starts its sidecar, registers its session, and replaces the sidecar
when it ends or hangs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.messages.sidecar import Activate, Pins, Verifying
from hostd.failures import Failed
from hostd.process.handle import Process
from hostd.process.proc import wakeups
from hostd.sidecars.serving import Serving
from hostd.sidecars.sidecar_process import Dials, SidecarProcess

_log = Logger()

_FIRST_DELAY, _LAST_DELAY = 0.02, 5.0
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


class SidecarSupervisor:
    """`start` returns once the first sidecar serves; the supervisor starts later ones itself."""

    def __init__(self, reactor: Any, serving: Serving, broker: tuple[str, int]) -> None:
        self._reactor = reactor
        self._serving = serving
        self._dials = Dials(reactor, broker)
        self._current: SidecarProcess | None = None
        # Sessions of sidecars that are gone, to be closed before the next one begins.
        self._unclosed: list[str] = []
        self._starting = DeferredLock()
        self._stopped = False
        self._delay = _FIRST_DELAY
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return self._current.process.pid if self._current else None

    @property
    def session(self) -> str | None:
        return self._current.session if self._current else None

    async def start(self) -> None:
        async with self._starting:
            await self._start()

    async def _start(self) -> None:
        if self._current is not None:
            return
        await self._close_sessions()
        self._check_wanted()
        sidecar = self._connect(await self._serving.fork())
        try:
            await self._activate(sidecar)
        except BaseException:
            self._end(sidecar)
            raise
        self._serves(sidecar)

    async def renew(self, ask: Callable[[], Awaitable[bool]]) -> bool:
        """`ask` has the broker renew the session, and says whether it goes on. Where it has ended,
        another sidecar gets another session by its new key. None begins meanwhile: it would have
        the time that was left before."""
        async with self._starting:
            goes_on = await ask()
            if not goes_on:
                await self._begin_anew()
            return goes_on

    async def _begin_anew(self) -> None:
        if self._current is not None:
            self._end(self._current)
        try:
            await self._start()
        except BaseException:
            self._replace_later()
            raise

    async def stop(self, reason: str) -> None:
        """The end needs no broker: the key of the session is lost with the sidecar."""
        self._stopped = True
        if self._current is not None:
            self._current.process.kill_session()
        async with self._starting:  # a start under way fails now and removes what it made
            if self._current is not None:
                self._end(self._current)
            await self._serving.close_all(reason)

    def leave(self) -> None:
        """hostd ends and the sidecar stays: the next hostd connects to its control socket."""
        self._stopped = True
        if self._current is not None:
            self._current.leave()

    async def selftest(self) -> list[dict[str, Any]]:
        sidecar = self._current
        if sidecar is None:
            raise Failed("R101", "the sidecar is being replaced; try again")
        try:
            results = await sidecar.test()
        except TimedOut:
            raise Failed("R101", "the sidecar does not answer; it is being replaced") from None
        return [
            {"name": name, "denied": result == 1}
            for name, result in zip(SELFTEST_NAMES, results, strict=False)
        ]

    async def replace_policy(
        self, regrant: Callable[[str, bytes], Awaitable[int]], allowed: bytes
    ) -> int:
        """The broker, whose decision counts, gets the policy first; returns how many connections
        it cut. A sidecar that does not then serve it is replaced.
        """
        async with self._starting:
            sidecar = self._current
            if sidecar is None or sidecar.session is None or not sidecar.key:
                return 0  # the next sidecar is started with the new policy
            cut = await regrant(sidecar.session, sidecar.key)
            try:
                served = await sidecar.give_policy(allowed)
            except TimedOut:
                return cut  # the sidecar is being replaced
            if served != sha256(allowed).digest():
                sidecar.distrust()
            return cut

    def check(self) -> None:
        """Asks whether the sidecar answers; what it answers does not matter here.

        A sidecar that has slept since its last answer does not hang, and is not woken up.
        """
        sidecar = self._current
        if sidecar is None or not sidecar.serving or sidecar.is_tested:
            return
        slept = wakeups(sidecar.process.pid)
        if slept is None or slept != sidecar.slept:
            asked = sidecar.test()
            asked.addCallbacks(lambda _: self._note_sleep(sidecar), lambda why: why.trap(TimedOut))

    def _note_sleep(self, sidecar: SidecarProcess) -> None:
        """Notes the count some time after the answer, when it sleeps again."""
        sidecar.slept = None

        def note() -> None:
            if sidecar is self._current:
                sidecar.slept = wakeups(sidecar.process.pid)

        self._reactor.callLater(_ASLEEP_AFTER, note)

    def adopt(self, process: Process | None, session: str | None) -> None:
        """Takes over a sidecar that an earlier hostd started; one that has ended or does not
        answer is replaced."""
        if process is None:
            self._unclosed += [] if session is None else [session]
            self.start_soon()
            return
        sidecar = self._connect(process)
        sidecar.session = session
        self._serves(sidecar)
        sidecar.ready.addCallbacks(lambda _: sidecar.tell(Activate()), lambda _: sidecar.hung())

    def pin(self, keys: frozenset[bytes]) -> None:
        """Tells the present sidecar the broker's keys; later ones are started with them."""
        if self._current is not None:
            self._current.tell(Pins(keys=keys))

    def verifying(self, seconds: int) -> None:
        """For at most so many seconds refusals are not slowed down; 0 ends that."""
        if self._current is not None:
            self._current.tell(Verifying(seconds=seconds))

    def start_soon(self) -> None:
        """Starts a sidecar without waiting for it, and tries again until it works."""
        self._reactor.callLater(0, self._replace)

    # One sidecar

    def _connect(self, process: Process) -> SidecarProcess:
        self._current = SidecarProcess(self._reactor, self._serving.id, process, self._dials)
        self._current.connect(self._serving.control_path)
        return self._current

    async def _activate(self, sidecar: SidecarProcess) -> None:
        try:
            key = await sidecar.ready
        except TimedOut:
            raise Failed("R101", "the sidecar did not become ready") from None
        self._check_wanted()
        sidecar.session = await self._serving.register(key)
        self._check_wanted()
        await self._serving.probe()
        self._check_wanted()
        await self._serving.activate(sidecar.session, sidecar.process.pid)
        sidecar.tell(Activate())

    def _check_wanted(self) -> None:
        if self._stopped:
            raise Failed("R106", "the sandbox is being ended")

    def _serves(self, sidecar: SidecarProcess) -> None:
        sidecar.serving = True
        sidecar.process.wait().addCallback(self._ended, sidecar)

    def _end(self, sidecar: SidecarProcess) -> None:
        sidecar.end()
        if sidecar.session is not None:
            self._unclosed.append(sidecar.session)
        if self._current is sidecar:
            self._current = None

    async def _close_sessions(self) -> None:
        while self._unclosed:
            await self._serving.close(self._unclosed[-1], "sidecar replaced")
            self._unclosed.pop()

    # Its end, and the next one

    def _ended(self, status: int, sidecar: SidecarProcess) -> None:
        if self._stopped or self._current is not sidecar:
            return
        self._end(sidecar)
        if self._reactor.seconds() - sidecar.started > _STABLE_AFTER:
            self._delay = _FIRST_DELAY
        _log.warn(
            "sidecar of {sandbox} ended ({status}); another in {delay} s",
            sandbox=self._serving.id,
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
