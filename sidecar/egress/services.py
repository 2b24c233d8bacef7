"""Everything about other hosts in one sidecar: DNS, the proxy, the synthetic addresses' ports."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping, Sequence

from gitmoat.wire.http.proxying import ProxyReader
from netpolicy.policy import Limits, Tier
from sidecar.budgets import EgressPace
from sidecar.egress.dns_answers import DnsAnswers
from sidecar.egress.dns_listener import DnsDatagrams, dns_port
from sidecar.egress.synthetic import SyntheticAddresses
from sidecar.exchange import Context
from sidecar.kind import AnyKind, Source
from sidecar.kinds import at
from sidecar.kinds.egress import egress_refused
from sidecar.port.clients import Door, http_port, tls_port
from sidecar.port.ports import Serve


class Egress:
    """`serve` has what its ports do, by the names of their rows."""

    def __init__(
        self, context: Context, uid: int, datagrams: socket.socket, kinds: Sequence[AnyKind]
    ) -> None:
        self._context = context
        self._uid = uid
        self._pace = EgressPace(context.loop, context.scope.policy.limits)
        addresses = SyntheticAddresses(secrets.randbelow(1 << 17))
        self._answers = DnsAnswers(context.scope, addresses, self._refused)
        self.datagrams = DnsDatagrams(context.loop, datagrams, self._answers)

        def door(name: str, synthetic: bool = False) -> Door:
            source = Source(name, Tier.UNTRUSTED, uid)
            name_of = addresses.name_of if synthetic else None
            return Door(context, source, self._pace, at(source, kinds), name_of)

        self.serve: Mapping[str, Serve] = {
            "dns_conversations": dns_port(context.loop, self._answers),
            "proxy": http_port(door("proxy"), ProxyReader),
            "plain": http_port(door("plain", synthetic=True)),
            "tls": tls_port(door("tls", synthetic=True)),
        }

    def limit(self, limits: Limits) -> None:
        """Those of another policy, whose names are others too."""
        self._pace.limit(limits)
        self._answers.forget()

    def _refused(self, name: str | None, code: str, count: int) -> None:
        self._context.report(egress_refused("dns", code, name, self._uid, count=count))
