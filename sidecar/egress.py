"""Everything about other hosts in one sidecar: DNS, the proxy, the synthetic addresses' ports."""

from __future__ import annotations

import secrets
import socket

from attrs import define, field, frozen

from sidecar.budgets import PLAIN, PROXY, TLS
from sidecar.dns_answers import DnsAnswers
from sidecar.dns_listener import DnsConversations, DnsDatagrams
from sidecar.egress_listeners import EgressListener, plain_port, proxy_port, tls_port
from sidecar.egress_office import EgressOffice
from sidecar.inherited import Inherited
from sidecar.synthetic import SyntheticAddresses


@frozen(eq=False)
class Dns:
    """Both of its sockets."""

    datagrams: DnsDatagrams
    conversations: DnsConversations

    def start(self) -> None:
        self.datagrams.start()
        self.conversations.start()

    def close(self) -> None:
        self.datagrams.close()
        self.conversations.close()


@define(eq=False)
class Egress:
    _office: EgressOffice
    _fds: Inherited
    _answers: DnsAnswers = field(init=False)
    dns: Dns = field(init=False)
    ports: tuple[EgressListener, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        office, fds = self._office, self._fds
        addresses = SyntheticAddresses(secrets.randbelow(1 << 17))
        self._answers = DnsAnswers(office.scope, addresses, self._refused)
        self.dns = Dns(
            DnsDatagrams(office.loop, _socket(fds.dns_datagrams), self._answers),
            DnsConversations(office.loop, _socket(fds.dns_conversations), self._answers),
        )
        self.ports = (
            EgressListener(office, _socket(fds.proxy), PROXY, proxy_port(office)),
            EgressListener(office, _socket(fds.plain), PLAIN, plain_port(office, addresses)),
            EgressListener(office, _socket(fds.tls), TLS, tls_port(office, addresses)),
        )

    def policy_changed(self) -> int:
        """How many connections were cut."""
        self._answers.forget()
        return self._office.cut_disallowed()

    def _refused(self, name: str | None, code: str, count: int) -> None:
        self._office.refused("dns", code, name, count=count)


def _socket(fd: int) -> socket.socket:
    return socket.socket(fileno=fd)
