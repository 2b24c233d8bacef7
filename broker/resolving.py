"""Names to addresses, asked by the broker itself, once for each connection."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.address import IPv4Address as IPv4Place
from twisted.internet.address import IPv6Address as IPv6Place
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.interfaces import IResolutionReceiver
from twisted.names import client, dns
from twisted.names.error import DomainError, ResolverError
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.settings import Address as Place
from gitwire.hostname import HostName
from netpolicy.addresses import Address

_TIMES = (1, 2)


class Resolver(Protocol):
    def resolve(self, host: HostName) -> Deferred[list[Address]]:
        """Every address of the name, in the order to try them; empty where there is none."""


@implementer(IResolutionReceiver)
@define(eq=False)
class _Receiver:
    """Collects what the system's resolver finds."""

    done: Deferred[list[Address]] = field(factory=Deferred)
    _found: list[Address] = field(factory=list)

    def resolutionBegan(self, resolutionInProgress: object) -> None:
        """There is nothing to cancel: getaddrinfo ends when it ends."""

    def addressResolved(self, address: object) -> None:
        if isinstance(address, IPv4Place | IPv6Place):
            self._found.append(ip_address(address.host))

    def resolutionComplete(self) -> None:
        self.done.callback(list(dict.fromkeys(self._found)))


@define(eq=False)
class SystemResolver:
    """As every program of this machine does: /etc/hosts, /etc/resolv.conf."""

    _reactor: Any

    def resolve(self, host: HostName) -> Deferred[list[Address]]:
        receiver = _Receiver()
        self._reactor.nameResolver.resolveHostName(receiver, host.text)
        return receiver.done


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
