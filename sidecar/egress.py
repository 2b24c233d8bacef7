"""Everything about other hosts in one sidecar: DNS, the proxy, the synthetic addresses' ports."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping

from sidecar.dns_answers import DnsAnswers
from sidecar.dns_listener import DnsDatagrams, dns_port
from sidecar.egress_listeners import plain_port, proxy_port, tls_port
from sidecar.egress_office import EgressOffice
from sidecar.ports import Serve
from sidecar.synthetic import SyntheticAddresses


class Egress:
    """`serve` has what its ports do, by the names of their rows."""

    def __init__(self, office: EgressOffice, datagrams: socket.socket) -> None:
        self._office = office
        addresses = SyntheticAddresses(secrets.randbelow(1 << 17))
        self._answers = DnsAnswers(office.scope, addresses, self._refused)
        self.datagrams = DnsDatagrams(office.loop, datagrams, self._answers)
        self.serve: Mapping[str, Serve] = {
            "dns_conversations": dns_port(office.loop, self._answers),
            "proxy": proxy_port(office),
            "plain": plain_port(office, addresses),
            "tls": tls_port(office, addresses),
        }

    def policy_changed(self) -> int:
        """How many connections were cut."""
        self._answers.forget()
        return self._office.cut_disallowed()

    def _refused(self, name: str | None, code: str, count: int) -> None:
        self._office.refused("dns", code, name, count=count)
