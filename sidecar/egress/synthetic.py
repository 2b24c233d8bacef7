"""Addresses that stand for names: handed out by DNS, understood by the transparent ports.

They mean something in this sandbox and to this sidecar only. A name is looked up in the policy
again when somebody connects: an address is never a permission.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Final

from attrs import define, field

from gitmoat.wire.hostname import HostName
from netpolicy.nftables import SYNTHETIC

MOST_NAMES: Final = 4096
_NETWORK: Final = IPv4Network(SYNTHETIC)
_BASE: Final = int(_NETWORK.network_address)
# Neither the network's own address nor its broadcast address.
_USABLE: Final = _NETWORK.num_addresses - 2


@define(eq=False)
class SyntheticAddresses:
    """`start` differs from sidecar to sidecar, so that an address of an earlier one, kept by some
    client, means nothing rather than something else."""

    _next: int
    on_taken_back: Callable[[], None] = field(default=lambda: None, init=False)
    _names: OrderedDict[HostName, int] = field(factory=OrderedDict, init=False)
    _by_number: dict[int, HostName] = field(factory=dict, init=False)

    def address_of(self, name: HostName) -> bytes:
        """The name's own address; the name that was asked for longest ago makes room."""
        number = self._names.get(name)
        if number is None:
            number = self._take(name)
        self._names.move_to_end(name)
        return (_BASE + 1 + number).to_bytes(4)

    def name_of(self, address: bytes) -> HostName | None:
        return self._by_number.get(int.from_bytes(address) - _BASE - 1)

    def _take(self, name: HostName) -> int:
        if len(self._names) >= MOST_NAMES:
            _, freed = self._names.popitem(last=False)
            del self._by_number[freed]
            self.on_taken_back()
        # There are many more addresses than names, so one is not used again for long.
        self._next = (self._next + 1) % _USABLE
        while self._next in self._by_number:
            self._next = (self._next + 1) % _USABLE
        self._names[name] = self._next
        self._by_number[self._next] = name
        return self._next
