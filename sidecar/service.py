"""Wires one sidecar and runs it. Called by hostd's zygote after the fork.

`main` finds itself confined: no files, no imports, no new sockets, threads or processes.
"""

from __future__ import annotations

import gc
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from twisted.internet.main import installReactor
from twisted.logger import Logger

from gitmoat.identity.certificates import public_key
from gitmoat.identity.peer import Attestation
from gitmoat.limits.brake import DenialBrake
from gitmoat.listeners import BUDGETS
from gitmoat.messages.sidecar import SidecarConfig, parse_allowed, parse_config
from gitmoat.net.timing import Timeouts, Timer, cancel
from gitmoat.net.transport.epoll import Epoll
from gitmoat.shape import Misshapen
from netpolicy.policy import Tier
from sidecar.budgets import GitPace, RequestRate
from sidecar.control.hostd_socket import ROOT, ControlSocket, Orders
from sidecar.control.report_queue import Reports
from sidecar.control.reporter import Reporter
from sidecar.credential.credential_socket import Issuer, credential_port
from sidecar.credential.tokens import Tokens
from sidecar.egress.services import Egress
from sidecar.exchange import Context
from sidecar.kind import AnyKind, Scope, Source
from sidecar.kinds import KINDS, at
from sidecar.link.broker_link import BrokerLink
from sidecar.loop import Loop
from sidecar.port.clients import Door, http_port
from sidecar.port.ports import Port, Serve

DRAIN: Final = 30.0
# The others have nothing with an end of its own.
_WAITED_FOR: Final = frozenset({"helper_git", "untrusted_git"})
# Longer than the broker waits for an upstream, so that the broker's answer is the one shown.
_LONGER: Final = 30.0
_DIGEST: Final = 32


def new_request_id() -> str:
    return secrets.token_hex(8)


class Service:
    """One sidecar's parts. Accepts nothing from the sandbox before `activate`."""

    _log = Logger()

    def __init__(
        self,
        loop: Loop,
        config: SidecarConfig,
        fds: Mapping[str, int],
        seed: bytes,
        on_stopped: Callable[[], None],
        control_uids: frozenset[int] = ROOT,
        kinds: Sequence[AnyKind] = KINDS,
    ) -> None:
        self._loop = loop
        self._on_stopped = on_stopped
        self._active = self._stopping = False
        self._deadline: Timer | None = None
        tokens = Tokens(loop.seconds)
        self._scope = scope = Scope(config.policy, config.upstreams, tokens.accepts)
        self._paces: list[GitPace] = []
        timeouts = Timeouts(idle=config.upstreams.idle + _LONGER)
        keys, egress = config.broker_keys, config.egress_cap
        cap = config.dial_cap + egress
        self.link = BrokerLink(loop, seed, keys, self._dial, cap, timeouts, egress)
        self._reporter = Reporter(loop, self.link.pool, Reports(loop.seconds))
        helpers = frozenset({config.uids.helper})
        attestation = Attestation(helpers, config.helper_cgroups, config.peer)
        issuer = Issuer(scope, tokens, self._reporter, loop.seconds)
        self._context = Context(
            loop, scope, self.link.pool, self._reporter, new_request_id, timeouts
        )
        datagrams = _socket(fds["dns_datagrams"])
        self._egress = Egress(self._context, config.uids.untrusted, datagrams, kinds)
        serve = {
            "helper_git": self._git("helper_git", Tier.HELPER, config.uids.helper, kinds),
            "untrusted_git": self._git(
                "untrusted_git", Tier.UNTRUSTED, config.uids.untrusted, kinds
            ),
            "credential": credential_port(loop, attestation, issuer),
            **self._egress.serve,
        }
        self._ports = [
            Port(loop, fds[name], budget, serve[name], waits=name in _WAITED_FOR)
            for name, budget in BUDGETS.items()
        ]
        control = _socket(fds["control"])
        admitted = Attestation(control_uids, None, config.peer)
        self._control = ControlSocket(loop, control, public_key(seed), self._orders(), admitted)

    def stop(self) -> None:
        """Accept no more, let what runs end within a time, then say that it is over."""
        if self._stopping:
            return
        self._stopping = True
        self._log.info("stopping")
        self._egress.datagrams.close()
        self._deadline = self._loop.callLater(DRAIN, self._cut)
        self._draining = len(self._ports)
        for port in self._ports:
            port.drain(self._drained)

    def _git(self, name: str, tier: Tier, uid: int, kinds: Sequence[AnyKind]) -> Serve:
        limits = self._scope.policy.limits
        rate = RequestRate(limits, reserve=tier is Tier.HELPER)
        pace = GitPace(self._loop, rate, DenialBrake(limits.free_refusals))
        self._paces.append(pace)
        source = Source(name, tier, uid)
        return http_port(Door(self._context, source, pace, at(source, kinds)))

    def _orders(self) -> Orders:
        return Orders(
            activate=self._activate,
            connection=self.link.adopt,
            policy=self._replace_policy,
            dial_failed=self.link.pool.dial_failed,
            pins=self.link.pin,
            verifying=self._verifying,
            stop=self.stop,
            changed=self.link.pool.control_changed,
        )

    def _replace_policy(self, raw: bytes) -> bytes:
        """Whole or not at all: one that is not understood leaves the old one in force."""
        try:
            allowed = parse_allowed(raw)
        except Misshapen as error:
            self._log.error("policy refused: {why}", why=str(error))
            return bytes(_DIGEST)
        self._scope.policy, self._scope.upstreams = allowed.policy, allowed.upstreams
        for pace in self._paces:
            pace.limit(allowed.policy.limits)
        self._egress.limit(allowed.policy.limits)
        cut = self._context.policy_changed()
        self._log.info("another policy is in force; {cut} connections cut", cut=cut)
        return sha256(raw).digest()

    def _verifying(self, seconds: int) -> None:
        """What hostd is refused on purpose slows nobody down."""
        for pace in self._paces:
            pace.verifying(seconds)

    def _dial(self) -> bool:
        return self._control.dial()

    def _activate(self) -> None:
        """Repeated by a hostd that was restarted; the second time changes nothing."""
        if self._active or self._stopping:
            return
        self._active = True
        self._log.info("active")
        self.link.pool.start()
        self._egress.datagrams.start()
        for port in self._ports:
            port.start()

    def _drained(self) -> None:
        self._draining -= 1
        if not self._draining:
            self._end()

    def _cut(self) -> None:
        self._log.warn("cutting what did not end in time")
        for port in self._ports:
            port.cut()

    def _end(self) -> None:
        cancel(self._deadline)
        self._reporter.close()
        self._control.close()
        self.link.pool.close()
        self._on_stopped()


def _socket(fd: int) -> socket.socket:
    return socket.socket(fileno=fd)


def main(config: bytes, fds: Mapping[str, int]) -> None:
    """Run until told to stop; returns when the reactor has stopped."""
    # The zygote froze what it had loaded and stopped collecting; our own garbage is collected.
    gc.enable()
    reactor: Any = Epoll()
    installReactor(reactor)
    try:
        settings = parse_config(config)
    except Misshapen as error:
        Logger().critical("configuration refused: {why}", why=str(error))
        raise
    Service(reactor, settings, fds, secrets.token_bytes(32), reactor.stop)
    # Handlers in Python would need a self-pipe for SIGCHLD; SIGTERM simply ends us.
    reactor.run(installSignalHandlers=False)
