"""The table of a sidecar's listeners, and the nft rules that let somebody in to them, agree."""

from __future__ import annotations

import re
import socket

import pytest

from gitmoat.listeners import LISTENERS, Who, named
from gitmoat.listeners import Listener as Row
from netpolicy.nftables import SIDECAR_PORTS, Uids, render

UIDS = Uids(sidecar=2000000000, helper=2000000001, untrusted=2000000002)
RULE = re.compile(
    r"ip daddr (?P<network>\S+) (?P<protocol>tcp|udp) dport (?P<ports>[0-9]+|{[ 0-9,]+}) "
    r"meta skuid (?P<uid>[0-9]+) accept"
)
BY_UID = {Who.HELPER: UIDS.helper, Who.UNTRUSTED: UIDS.untrusted}
PORTS = [row for row in LISTENERS if row.port is not None]
Door = tuple[str, str, int, int]


def doors() -> set[Door]:
    """What the rules open: protocol, network, port, and the uid that is let in."""
    return {
        (found["protocol"], found["network"], int(port), int(found["uid"]))
        for found in RULE.finditer(render(UIDS, "5" * 64))
        for port in re.findall("[0-9]+", found["ports"])
    }


def door(row: Row) -> Door:
    assert row.port is not None
    protocol = "udp" if row.kind is socket.SOCK_DGRAM else "tcp"
    return protocol, row.network, row.port, BY_UID[row.who]


def test_the_rules_open_what_is_listened_on_to_who_may_and_nothing_else() -> None:
    assert doors() == {door(row) for row in PORTS}
    assert {row.port for row in PORTS} == set(SIDECAR_PORTS)


@pytest.mark.parametrize("row", LISTENERS, ids=lambda row: row.name)
def test_a_row_says_who_may_connect_in_one_way(row: Row) -> None:
    """By a uid in the rules, or by the mode of a file and what is asked of the kernel."""
    assert (row.port is None) == (row.mode != 0)
    assert (row.port is None) == (row.who in (Who.ATTESTED, Who.ROOT))
    assert (row.who is Who.ROOT) == (row.mode == 0o600)


def test_descriptors_are_named_in_the_order_of_the_table() -> None:
    rows = [row.name for row in LISTENERS]
    assert list(named(range(len(rows)))) == rows
    with pytest.raises(ValueError, match="zip"):
        named(range(len(rows) - 1))
