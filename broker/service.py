"""Wires the broker together and runs it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from audit.events import DaemonStarted, DaemonStopped
from audit.journal import JournalUnavailable
from broker.admin import Admin, serve_admin
from broker.admin_operations import AdminOperations
from broker.admission import Admission
from broker.apart import Apart
from broker.authority import Authority
from broker.clocks import WallClock
from broker.desk import Desk
from broker.dialling import Dialler
from broker.draining import Drain
from broker.governors import Governors
from broker.helper_link import HelperLink
from broker.kind import Kind
from broker.kinds import KINDS
from broker.listener import Listener, serve, server_timeouts
from broker.metrics import Metrics
from broker.metrics_port import MetricsPort
from broker.opening import Opened, read_config
from broker.overview import samples
from broker.own_key import OwnKey
from broker.providers.making import Maker
from broker.recording import Recorder
from broker.resolving import SystemResolver
from broker.routes import CurrentRoutes, Routes, check_files, make_routes
from broker.sessions import Sessions
from broker.settings import BrokerConfig
from broker.store.interface import AuditHead
from broker.upstream import Upstreams
from broker.version import VERSION
from gitmoat.boot import boot_id, boot_seconds
from identity.keyfile import public_text
from identity.tlsoptions import PinnedServer
from streams.hangups import Hangups

log = Logger()

_TICK = 1.0
_SLOW_TICKS = 10
_USE_TICKS = 60


@define(eq=False)
class Broker:
    """Made while still privileged, started after."""

    _reactor: Any
    _opened: Opened
    _admin_uid: int
    desk: Desk = field(init=False)
    _apart: Apart = field(init=False)
    _maker: Maker = field(init=False)
    _system: SystemResolver = field(init=False)
    _clock: WallClock = field(init=False)
    _own_key: OwnKey = field(init=False)
    _listener: Listener = field(init=False)
    _ends: list[Callable[[], object]] = field(init=False, factory=list)
    _stop_listening: Callable[[], object] = field(init=False, default=lambda: None)
    _ticks: int = field(init=False, default=0)
    _head: AuditHead | None = field(init=False, default=None)
    _now: Callable[[], float] = boot_seconds
    _wall: Callable[[], float] = time.time
    _kinds: tuple[type[Kind], ...] = KINDS
    failed: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        opened = self._opened
        kept = opened.config.key_file
        self._own_key = OwnKey(opened.state, opened.ids.uid, opened.key, opened.vault, kept)
        self._clock = WallClock(opened.store, self._wall)
        self._maker = Maker(
            self._reactor,
            self._now,
            opened.tree,
            opened.vault,
            opened.ids.pair,
            HelperLink(self._reactor),
        )
        self._system = SystemResolver(self._reactor)
        self._apart = Apart(self._reactor)
        self.desk = self._make_desk()
        config = self._opened.config
        timeouts = server_timeouts(config.timeouts)
        self._listener = Listener(self.desk, config.limits.connections, timeouts)
        self.desk.metrics.watch(lambda: samples(self.desk, self._listener.open))

    def _make_desk(self) -> Desk:
        opened, boot = self._opened, boot_id()
        sessions = Sessions(opened.store, self._now, self._clock.now)
        sessions.load(boot)
        routes = CurrentRoutes(self._routes(opened.config), self._reload)
        audiences = [self._own_key.text]
        self._own_key.on_change(lambda key: audiences.insert(0, public_text(key)))
        authority = Authority(sessions, opened.journal, self._now, self._clock, audiences, boot)
        upstreams = Upstreams(self._now)
        routes.on_change(upstreams.forget_all)
        routes.on_change(sessions.cut_disallowed)
        limits = opened.config.limits
        return Desk(
            clock=self._reactor,
            now=self._now,
            routes=routes,
            sessions=sessions,
            authority=authority,
            journal=opened.journal,
            recorder=Recorder(self._reactor, opened.journal, self._apart),
            dialler=Dialler(self._reactor),
            upstreams=upstreams,
            admission=Admission(limits),
            governors=Governors(limits.credential_requests_per_minute, self._now),
            metrics=Metrics(),
            hangups=Hangups(self._reactor),
            kinds=self._kinds,
        )

    def _routes(self, config: BrokerConfig) -> Routes:
        return make_routes(config, self._maker, self._system)

    def _reload(self) -> Routes:
        opened = self._opened
        config = read_config(opened.paths, opened.tree)
        check_files(config, opened.tree, opened.ids.pair)
        return self._routes(config)

    def start(self) -> None:
        """Answers from here on, until the reactor stops."""
        self.open_ports()
        LoopingCall(self.tick).start(_TICK).addErrback(self._broken)
        self._reactor.addSystemEventTrigger("before", "shutdown", self._end)

    def open_ports(self) -> None:
        opened = self._opened
        opened.journal.record(DaemonStarted(name="broker", reason=VERSION))
        server = PinnedServer(bytes(opened.key), self._listener.admits)
        self._own_key.on_change(lambda key: server.use(bytes(key)))
        port = serve(self._reactor, opened.listener, self._listener, server)
        admin = serve_admin(self._reactor, opened.admin, self.admin())
        metrics = [
            MetricsPort(self._reactor, sock, self.desk.metrics.text) for sock in opened.metrics
        ]
        self._stop_listening = port.close
        self._ends = [port.close, admin.close, *(each.close for each in metrics)]

    def admin(self) -> Admin:
        opened = self._opened
        operations = AdminOperations(
            self.desk, opened.vault, str(opened.address), self._own_key, self._clock, self._leave
        )
        return Admin(self._admin_uid, operations.table(), opened.journal, self._maker.link)

    def _leave(self) -> None:
        # The answer to the one who asked goes out first.
        self._reactor.callLater(0.05, self._reactor.stop)

    def tick(self) -> None:
        """What ends by its time ends first: that needs no store."""
        self._ticks += 1
        self.desk.authority.sweep()
        self.desk.upstreams.sweep()
        try:
            self.desk.sessions.save_ends()
        except sqlite3.Error as error:
            log.error("ends not stored: {what}", what=str(error))
        try:
            if self._ticks % _SLOW_TICKS == 0:
                self.desk.sessions.forget_old()
                self._clock.keep()
                self.desk.sessions.keep_usage()
                self.desk.authority.summarise()
                self._keep_head()
            if self._ticks % _USE_TICKS == 0:
                self.desk.authority.record_use()
        except sqlite3.Error as error:
            log.error("the store failed: {what}", what=str(error))

    def _keep_head(self) -> None:
        journal = self._opened.journal
        head = AuditHead(*journal.head())
        if head != self._head:
            journal.keep_head()
            self._opened.store.keep_audit_head(head)
            self._head = head

    def _broken(self, failure: Failure) -> None:
        """Without the tick no session would end by its time: rather no broker."""
        log.failure("the clock's work failed", failure)
        self.failed = True
        self._reactor.stop()

    def drain(self) -> Deferred[None]:
        """Fires when nothing is left that is worth waiting for; `close` follows."""
        patience = 0 if self.failed else self._opened.config.timeouts.drain
        listener, stop = self._listener, self._stop_listening
        return Drain(self._reactor, self.desk.sessions, listener, stop, patience).start()

    def _end(self) -> Deferred[None]:
        return self.drain().addCallback(lambda _: self.close())

    def close(self) -> None:
        """Cuts what runs, then records the end."""
        for end in self._ends:
            end()
        self._listener.cut_all()
        self.desk.upstreams.forget_all()
        self.desk.authority.record_use()
        self.desk.authority.summarise()
        try:
            self._opened.journal.record(DaemonStopped(name="broker"))
            self._keep_head()
            self.desk.sessions.keep_usage()
        except (JournalUnavailable, sqlite3.Error) as error:
            log.error("the end was not recorded: {what}", what=str(error))
        self.desk.hangups.close()
        self._apart.close()
        self._opened.store.close()
        self._opened.journal.close()
