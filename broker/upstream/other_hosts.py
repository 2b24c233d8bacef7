"""How the hosts that sandboxes name are reached: at addresses that were checked, and no others."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import define, frozen
from twisted.internet.defer import TimeoutError as TimedOut

from broker.config.values import Address as Place
from broker.errors import Unavailable
from broker.sessions.running import Permit
from broker.upstream.resolving import Resolver
from broker.upstream.route import Route, Through
from gitmoat.wire.hostname import Destination, HostName
from netpolicy.egress_rules.addresses import Address, may_dial

_MOST_ADDRESSES = 4
_CODE, _WHAT = _UNREACHABLE = "E107", "the host cannot be reached"


def is_ours(address: Address) -> bool:
    """Whether the address is one of this machine's: then the kernel would speak from it, too."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((str(address), 9))  # nothing is sent
        except OSError:
            return False
        return bool(asked.getsockname()[0] == str(address))


@frozen(eq=False)
class Checked:
    """A name that a sandbox chose may lead anywhere: E106 where none of it may be dialled."""

    other: OtherHosts
    host: HostName
    allow_private: bool

    async def find(self, permit: Permit) -> list[Address]:
        other = self.other
        resolving = other.resolver.resolve(self.host, permit.session)
        resolving.addTimeout(other.timeout, other.clock)
        try:
            found = await resolving
        except TimedOut:
            raise Unavailable(_CODE, _WHAT, "the resolver does not answer") from None
        if not found:
            raise Unavailable(_CODE, _WHAT, "the name has no address")
        good = [
            each for each in found if may_dial(each, self.allow_private) and not other.ours(each)
        ]
        if not good:
            shown = ", ".join(map(str, found[:_MOST_ADDRESSES]))
            raise Unavailable("E106", "the name leads to no public address", shown)
        return good[:_MOST_ADDRESSES]


@define(eq=False)
class OtherHosts:
    """Routes to other hosts.

    With a corporate proxy the name is resolved and checked all the same; a tunnel then goes to
    the checked address, a plain request to the proxy, which needs the name.
    """

    clock: Any
    resolver: Resolver
    timeout: float
    proxy: Place | None = None
    ours: Callable[[Address], bool] = is_ours

    def route(self, to: Destination, allow_private: bool, idle: float, tunnelled: bool) -> Route:
        return Route(
            Place(to.host.text, to.port),
            self.timeout,
            idle,
            _UNREACHABLE,
            proxy=None if self.proxy is None else Through(self.proxy),
            tunnelled=tunnelled,
            addresses=Checked(self, to.host, allow_private),
        )
