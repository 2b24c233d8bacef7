"""Which addresses a host name may resolve to. One table, with a reason for each row.

`ipaddress.is_global` is not used: what it means has changed between versions of Python.
Documentation networks are not in the table: nothing real answers there, and tests use them.
"""

from enum import Enum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address


class Reach(Enum):
    PUBLIC = "public"
    PRIVATE = "private"  # reached only by a rule with allow_private
    NEVER = "never"


_PRIVATE: Final = (
    ("10.0.0.0/8", "private"),
    ("172.16.0.0/12", "private"),
    ("192.168.0.0/16", "private"),
    ("100.64.0.0/10", "shared by a carrier"),
    ("fc00::/7", "private"),
)
_NEVER: Final = (
    ("0.0.0.0/8", "this network"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, and cloud metadata"),
    ("100.100.100.200/32", "cloud metadata"),
    ("168.63.129.16/32", "cloud metadata"),
    ("192.0.0.0/24", "protocol assignments, and cloud metadata"),
    ("192.88.99.0/24", "6to4 relays"),
    ("198.18.0.0/15", "our own synthetic addresses"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved, and broadcast"),
    ("fd00:ec2::/32", "cloud metadata"),
    ("fd00:42::42/128", "cloud metadata"),
    ("fd20:ce::254/128", "cloud metadata"),
    ("2001::/23", "protocol assignments, Teredo"),
    ("2002::/16", "6to4: an IPv4 address inside"),
    ("64:ff9b::/96", "NAT64: an IPv4 address inside"),
    ("64:ff9b:1::/48", "NAT64: an IPv4 address inside"),
    ("::ffff:0:0/96", "IPv4-mapped: an IPv4 address inside"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
)
_NETWORKS: Final = tuple(
    (ip_network(text), reach, why)
    for rows, reach in ((_NEVER, Reach.NEVER), (_PRIVATE, Reach.PRIVATE))
    for text, why in rows
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")


def reach_of(address: Address) -> tuple[Reach, str]:
    """The first row that holds it; of IPv6 only global unicast is public."""
    for network, reach, why in _NETWORKS:
        if address in network:
            return reach, why
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return Reach.NEVER, "not global unicast"
    return Reach.PUBLIC, ""


def may_dial(address: Address, allow_private: bool) -> bool:
    reach, _ = reach_of(address)
    return reach is Reach.PUBLIC or (allow_private and reach is Reach.PRIVATE)
