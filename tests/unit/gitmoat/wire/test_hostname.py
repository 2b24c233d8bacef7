"""A host on the other side has one spelling, and it is never an address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.hostname import Destination, HostName, parse_destination, parse_host
from gitmoat.wire.malformed import Malformed
from tests.fakes.policies import host_names

# Threat model, row 8: every spelling of an address that some library understands.
ADDRESSES = [
    b"203.0.113.5", b"127.0.0.1", b"127.1", b"0", b"2130706433", b"0x7f000001", b"0x7f.1",
    b"017700000001", b"0177.0.0.1", b"example.0x7f", b"[::1]", b"::1", b"[::ffff:127.0.0.1]",
    b"fe80::1%lo", b"1e100.1",
]  # fmt: skip
NOT_NAMES = [
    b"", b".", b"a..b", b".a", b"host.example.", b"-a.example", b"a-.example", b"a b.example",
    b"a\x00.example", b"a.example\n", b"a%2eexample", b"user@a.example", b"a.example/",
    b"*.example", "b\u00fccher.example".encode(), b"a" * 64 + b".example",
    b".".join([b"a" * 60] * 5), "\u2488.example".encode(), b"a.example#", b"a\\.example",
]  # fmt: skip


@pytest.mark.parametrize("raw", ADDRESSES + NOT_NAMES)
def test_what_is_not_a_name_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_host(raw)
    with pytest.raises(Malformed):
        parse_destination(raw + b":443")


@pytest.mark.parametrize(
    "port", [b"", b":", b":0", b":65536", b":00443", b":+443", b":443 ", b":4a", b":443:443x"]
)
def test_what_is_not_a_port_is_refused(port: bytes) -> None:
    with pytest.raises(Malformed):
        parse_destination(b"a.example" + port)


def test_upper_case_is_the_same_name() -> None:
    assert parse_destination(b"WWW.Example:8443") == Destination(HostName("www.example"), 8443)


@given(host_names, st.integers(1, 65535))
def test_a_destination_is_read_as_it_is_written(host: HostName, port: int) -> None:
    there = Destination(host, port)
    assert parse_destination(there.text.encode()) == there


@given(st.binary(max_size=80))
def test_any_octets_are_a_canonical_name_or_refused(raw: bytes) -> None:
    try:
        host = parse_host(raw)
    except Malformed:
        return
    assert parse_host(host.text.encode()) == host
    assert host.text == raw.decode("ascii").lower()
