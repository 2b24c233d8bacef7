"""Keeps one sandbox served: starts its sidecar, gets it a session, and replaces it when it dies
or hangs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.messages.sidecar import Activate, Pins, Verifying
from hostd.failures import Failed
from hostd.proc import wakeups
from hostd.process import Process
from hostd.serving import Serving
from hostd.sidecar_process import Dials, SidecarProcess

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
    """`start` returns once the first sidecar serves; later ones come by themselves."""

    def __init__(self, reactor: Any, serving: Serving, broker: tuple[str, int]) -> None:
        self._reactor = reactor
        self._serving = serving
        self._dials = Dials(reactor, broker)
        self._life: SidecarProcess | None = None
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
            self._check_wanted()
            life = self._connect(await self._serving.fork())
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
            await self._serving.close_all(reason)

    def leave(self) -> None:
        """hostd goes, the sidecar stays: the next hostd finds it by its control socket."""
        self._stopped = True
        if self._life is not None:
            self._life.leave()

    async def selftest(self) -> list[dict[str, Any]]:
        life = self._life
        if life is None:
            raise Failed("R101", "the sidecar is being replaced; try again")
        try:
            results = await life.test()
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
                served = await life.give_policy(policy)
            except TimedOut:
                return cut  # and it is being replaced
            if served.hex() != digest:
                life.distrust()
            return cut

    def check(self) -> None:
        """Ask whether it still answers; the answer itself does not matter here.

        One that sleeps, and has slept since it last answered, cannot hang; it is let sleep.
        """
        life = self._life
        if life is None or not life.serving or life.is_tested:
            return
        slept = wakeups(life.process.pid)
        if slept is None or slept != life.slept:
            asked = life.test()
            asked.addCallbacks(lambda _: self._note_sleep(life), lambda why: why.trap(TimedOut))

    def _note_sleep(self, life: SidecarProcess) -> None:
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
        life.ready.addCallbacks(lambda _: life.tell(Activate()), lambda _: life.stuck())

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

    def _connect(self, process: Process) -> SidecarProcess:
        self._life = SidecarProcess(self._reactor, self._serving.id, process, self._dials)
        self._life.connect(self._serving.control_path)
        return self._life

    async def _activate(self, life: SidecarProcess) -> None:
        try:
            key = await life.ready
        except TimedOut:
            raise Failed("R101", "the sidecar did not become ready") from None
        self._check_wanted()
        life.session = await self._serving.register(key)
        self._check_wanted()
        await self._serving.probe()
        self._check_wanted()
        await self._serving.activate(life.session, life.process.pid)
        life.tell(Activate())

    def _check_wanted(self) -> None:
        if self._stopped:
            raise Failed("R106", "the sandbox is being ended")

    def _serves(self, life: SidecarProcess) -> None:
        life.serving = True
        life.process.wait().addCallback(self._ended, life)

    def _end(self, life: SidecarProcess) -> None:
        life.end()
        if life.session is not None:
            self._left.append(life.session)
        if self._life is life:
            self._life = None

    async def _close_left(self) -> None:
        while self._left:
            await self._serving.close(self._left[-1], "sidecar replaced")
            self._left.pop()

    # Its end, and the next one

    def _ended(self, status: int, life: SidecarProcess) -> None:
        if self._stopped or self._life is not life:
            return
        self._end(life)
        if self._reactor.seconds() - life.started > _STABLE_AFTER:
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
