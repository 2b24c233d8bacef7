"""Names to addresses, asked by the broker itself, once for each connection."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.names import client, dns
from twisted.names.error import DomainError, ResolverError
from twisted.python.failure import Failure

from broker.settings import Address as Place
from gitwire.hostname import HostName
from netpolicy.addresses import Address
from streams.dialling import resolve

_TIMES = (1, 2)


class Resolver(Protocol):
    def resolve(self, host: HostName) -> Deferred[list[Address]]:
        """Every address of the name, in the order to try them; empty where there is none."""


@define(eq=False)
class SystemResolver:
    """As every program of this machine does: /etc/hosts, /etc/resolv.conf."""

    _reactor: Any

    def resolve(self, host: HostName) -> Deferred[list[Address]]:
        return resolve(self._reactor, host.text)


@define(eq=False)
class ServerResolver:
    """Asks the DNS servers that broker.toml names, and nobody else."""

    _reactor: Any
    _servers: tuple[Place, ...]
    _client: client.Resolver = field(init=False)

    def __attrs_post_init__(self) -> None:
        servers = [(place.host, place.port) for place in self._servers]
        self._client = client.Resolver(servers=servers, timeout=_TIMES, reactor=self._reactor)

    def resolve(self, host: HostName) -> Deferred[list[Address]]:
        asked: list[Deferred[Any]] = [
            self._client.lookupAddress(host.text),
            self._client.lookupIPV6Address(host.text),
        ]
        return DeferredList(asked, consumeErrors=True).addCallback(_found)


def _found(results: list[tuple[bool, Any]]) -> list[Address]:
    """One of the two questions may fail: a host need not have both kinds of address."""
    for good, result in results:
        if not good:
            _check_expected(result)
    answers = [record for good, result in results if good for record in result[0]]
    return list(dict.fromkeys(_address(record) for record in answers if _is_address(record)))


def _check_expected(failure: Failure) -> None:
    failure.trap(DomainError, ResolverError, TimedOut, OSError)


def _is_address(record: Any) -> bool:
    return record.type in (dns.A, dns.AAAA)


def _address(record: Any) -> Address:
    octets: bytes = record.payload.address
    return IPv4Address(octets) if record.type == dns.A else IPv6Address(octets)
