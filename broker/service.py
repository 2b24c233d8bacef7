"""Wires the broker together and runs it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.api.admin_operations import AdminOperations
from broker.api.admin_socket import Admin, serve_admin
from broker.api.listener import Listener, serve, server_timeouts
from broker.api.metrics import Metrics
from broker.api.metrics_port import MetricsPort
from broker.api.overview import samples
from broker.config.settings import BrokerConfig
from broker.context import Context
from broker.credentials.helper_link import HelperLink
from broker.credentials.own_key import OwnKey
from broker.credentials.providers.making import Maker
from broker.disk_thread import DiskThread
from broker.exchange.draining import Drain
from broker.exchange.kind import Kind
from broker.exchange.recording import Recorder
from broker.kinds import KINDS
from broker.sessions.admission import Admission
from broker.sessions.clocks import WallClock
from broker.sessions.grants import Grants
from broker.sessions.sessions import Sessions
from broker.sessions.store.interface import AuditHead, Contents, StoreFailed
from broker.sessions.summaries import Summaries
from broker.startup import Resources, read_config
from broker.upstream.dialler import Dialler
from broker.upstream.kept import Upstreams
from broker.upstream.limiters import UpstreamLimiters
from broker.upstream.resolving import SystemResolver
from broker.upstream.routes import CurrentRoutes, Routes, check_files, make_routes
from gitmoat.audit.events import DaemonStarted, DaemonStopped
from gitmoat.audit.journal import JournalUnavailable
from gitmoat.boot import boot_id, boot_seconds
from gitmoat.identity.keyfile import public_text
from gitmoat.identity.tls_options import PinnedServer
from gitmoat.net.hangups import Hangups
from gitmoat.version import VERSION

log = Logger()

_TICK = 1.0
_SLOW_TICKS = 10
_USE_TICKS = 60


@define(eq=False)
class Broker:
    """Made while still privileged, started after."""

    _reactor: Any
    _resources: Resources
    _admin_uid: int
    context: Context = field(init=False)
    summaries: Summaries = field(init=False)
    _disk: DiskThread = field(init=False)
    _maker: Maker = field(init=False)
    _system: SystemResolver = field(init=False)
    _clock: WallClock = field(init=False)
    _own_key: OwnKey = field(init=False)
    _listener: Listener = field(init=False)
    _ends: list[Callable[[], object]] = field(init=False, factory=list)
    _stop_listening: Callable[[], object] = field(init=False, default=lambda: None)
    _ticks: int = field(init=False, default=0)
    _head: AuditHead | None = field(init=False, default=None)
    _is_storing: bool = field(init=False, default=False)
    _is_due: bool = field(init=False, default=False)
    _now: Callable[[], float] = boot_seconds
    _wall: Callable[[], float] = time.time
    _kinds: tuple[type[Kind], ...] = KINDS
    failed: bool = field(init=False, default=False)
    ending: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        resources = self._resources
        kept = resources.config.key_file
        self._own_key = OwnKey(
            resources.state, resources.ids.uid, resources.key, resources.vault, kept
        )
        contents = resources.store.load()
        self._clock = WallClock(resources.store, contents.highest_wall, self._wall)
        self._maker = Maker(
            self._reactor,
            self._now,
            resources.tree,
            resources.vault,
            resources.ids.pair,
            HelperLink(self._reactor),
        )
        self._system = SystemResolver(self._reactor)
        self._disk = DiskThread(self._reactor)
        self.context = self._make_context(contents)
        self.summaries = Summaries(self.context.sessions, resources.journal)
        config = self._resources.config
        timeouts = server_timeouts(config.timeouts)
        self._listener = Listener(self.context, config.limits.connections, timeouts)
        self.context.metrics.watch(lambda: samples(self.context, self._listener.open))

    def _make_context(self, contents: Contents) -> Context:
        resources, boot = self._resources, boot_id()
        sessions = Sessions(resources.store, self._now, self._clock.now)
        sessions.load(contents, boot)
        routes = CurrentRoutes(self._routes(resources.config), self._reload)
        audiences = [self._own_key.text]
        self._own_key.on_change(lambda key: audiences.insert(0, public_text(key)))
        grants = Grants(sessions, resources.journal, self._now, self._clock, audiences, boot)
        upstreams = Upstreams(self._now)
        routes.on_change(upstreams.forget_all)
        routes.on_change(sessions.cut_disallowed)
        limits = resources.config.limits
        return Context(
            clock=self._reactor,
            now=self._now,
            routes=routes,
            sessions=sessions,
            grants=grants,
            journal=resources.journal,
            recorder=Recorder(self._reactor, resources.journal, self._disk),
            dialler=Dialler(self._reactor),
            upstreams=upstreams,
            admission=Admission(limits),
            limiters=UpstreamLimiters(limits.credential_requests_per_minute, self._now),
            metrics=Metrics(),
            hangups=Hangups(self._reactor),
            kinds=self._kinds,
        )

    def _routes(self, config: BrokerConfig) -> Routes:
        return make_routes(config, self._maker, self._system)

    def _reload(self) -> Routes:
        resources = self._resources
        config = read_config(resources.paths, resources.tree)
        check_files(config, resources.tree, resources.ids.pair)
        return self._routes(config)

    def start(self) -> None:
        """Answers from here on, until the reactor stops."""
        self.open_ports()
        LoopingCall(self.tick).start(_TICK).addErrback(self._broken)
        self._reactor.addSystemEventTrigger("before", "shutdown", self._end)

    def open_ports(self) -> None:
        resources = self._resources
        resources.journal.record(DaemonStarted(name="broker", reason=VERSION))
        server = PinnedServer(bytes(resources.key), self._listener.admits)
        self._own_key.on_change(lambda key: server.use(bytes(key)))
        port = serve(self._reactor, resources.listener, self._listener, server)
        admin = serve_admin(self._reactor, resources.admin, self.admin())
        metrics = [
            MetricsPort(self._reactor, sock, self.context.metrics.text)
            for sock in resources.metrics
        ]
        self._stop_listening = port.close
        self._ends = [port.close, admin.close, *(each.close for each in metrics)]

    def admin(self) -> Admin:
        resources = self._resources
        operations = AdminOperations(
            self.context,
            resources.vault,
            str(resources.address),
            self._own_key,
            self._clock,
            self._leave,
            lambda: self.ending,
        )
        return Admin(self._admin_uid, operations.table(), resources.journal, self._maker.link)

    def _leave(self) -> None:
        # The answer to the one who asked goes out first.
        self._reactor.callLater(0.05, self._reactor.stop)

    def tick(self) -> None:
        """What ends by its time ends first: that needs no store, and waits for none."""
        self._ticks += 1
        self.context.grants.sweep()
        self.context.upstreams.sweep()
        if self._ticks % _USE_TICKS == 0:
            self.summaries.record_use()
        if self._ticks % _SLOW_TICKS == 0:
            self.summaries.record_denials()
            self._is_due = True
        if not self._is_storing:
            self._is_storing = True
            Deferred.fromCoroutine(self._keep()).addErrback(self._broken)

    async def _keep(self) -> None:
        """What the store is told now and then; the ends that it did not take first."""
        try:
            await self._try("ends not stored", self.context.sessions.save_ends)
            if self._is_due:
                self._is_due = False
                await self._try("the store failed", self._keep_all)
        finally:
            self._is_storing = False

    async def _try(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreFailed as error:
            log.error("{failed}: {what}", failed=what, what=str(error))

    async def _keep_all(self) -> None:
        await self.context.sessions.forget_old()
        await self._clock.keep()
        await self.context.sessions.keep_usage()
        await self._keep_head()

    async def _keep_head(self) -> None:
        journal = self._resources.journal
        head = AuditHead(*journal.head())
        if head != self._head:
            journal.keep_head()
            await self._resources.store.keep_audit_head(head)
            self._head = head

    def _broken(self, failure: Failure) -> None:
        """Without the tick no session would end by its time: the broker ends instead."""
        log.failure("the clock's work failed", failure)
        self.failed = True
        self._reactor.stop()

    def drain(self) -> Deferred[None]:
        """Fires when nothing is left that is worth waiting for; `close` follows."""
        self.ending = True
        timeout = 0 if self.failed else self._resources.config.timeouts.drain
        listener, stop = self._listener, self._stop_listening
        return Drain(self._reactor, self.context.sessions, listener, stop, timeout).start()

    def _end(self) -> Deferred[None]:
        return self.drain().addCallback(lambda _: self.close())

    def close(self) -> Deferred[None]:
        """Cuts what runs, then records the end."""
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        for end in self._ends:
            end()
        self._listener.cut_all()
        self.context.upstreams.forget_all()
        self.summaries.record_use()
        self.summaries.record_denials()
        try:
            self._resources.journal.record(DaemonStopped(name="broker"))
            await self._keep_head()
            await self.context.sessions.save_ends()
            await self.context.sessions.keep_usage()
        except (JournalUnavailable, StoreFailed) as error:
            log.error("the end was not recorded: {what}", what=str(error))
        self.context.hangups.close()
        self._disk.close()
        self._resources.store.close()
        self._resources.journal.close()
