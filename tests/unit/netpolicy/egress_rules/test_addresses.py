"""Which addresses a name may lead to."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.egress_rules.addresses import Reach, may_dial, reach_of

NEVER = [
    "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "169.254.169.254", "169.254.0.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.88.99.1", "198.18.0.1",
    "198.19.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:203.0.113.5", "::127.0.0.1", "64:ff9b::1.2.3.4", "64:ff9b:1::1",
    "2002:7f00:1::", "2001:0:1::", "fe80::1", "fec0::1", "ff02::1", "fd00:ec2::254", "fd00:ec2::23",
    "fd00:42::42", "100::1", "5f00::1",
]  # fmt: skip
PRIVATE = ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd00::1"]
PUBLIC = ["203.0.113.5", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::5", "2606:4700::1"]


@pytest.mark.parametrize("text", NEVER)
def test_what_no_rule_opens(text: str) -> None:
    address = ip_address(text)
    assert reach_of(address)[0] is Reach.NEVER
    assert not may_dial(address, allow_private=True)


@pytest.mark.parametrize("text", PRIVATE)
def test_what_only_an_explicit_rule_opens(text: str) -> None:
    address = ip_address(text)
    assert not may_dial(address, allow_private=False)
    assert may_dial(address, allow_private=True)


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public(text: str) -> None:
    assert may_dial(ip_address(text), allow_private=False)


@given(st.integers(0, 2**32 - 1))
def test_the_table_is_no_wider_than_the_librarys(number: int) -> None:
    """What Python calls not global is not dialled, but for the documentation networks."""
    address = IPv4Address(number)
    documentation = str(address).startswith(("192.0.2.", "198.51.100.", "203.0.113."))
    if not address.is_global and not documentation:
        assert not may_dial(address, allow_private=False)


@given(st.integers(0, 2**128 - 1))
def test_the_same_of_ipv6(number: int) -> None:
    address = IPv6Address(number)
    documentation = address.exploded.startswith(("2001:0db8", "3fff:0"))
    if not address.is_global and not documentation:
        assert not may_dial(address, allow_private=False)
