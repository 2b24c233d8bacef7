"""The first message of TLS: one name, said openly, or nothing goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.clienthello import HELLO_LIMIT, ClientHello, HelloReader, hello_for
from gitmoat.wire.hostname import HostName
from gitmoat.wire.malformed import Malformed
from tests.fakes.chunking import WAYS, cut_up, cuts
from tests.fakes.clienthello import body, message, openssl, records, sni, vector

NAME = HostName("web.example")


def read(data: bytes, way: Callable[[bytes], Iterator[bytes]]) -> ClientHello | None:
    reader = HelloReader()
    for piece in way(data):
        hello = reader.feed(piece)
        if hello is not None:
            return hello
    return None


@pytest.mark.parametrize("way", WAYS)
def test_a_real_client_is_understood_however_it_is_cut(
    way: Callable[[bytes], Iterator[bytes]],
) -> None:
    assert read(openssl("Web.Example"), way) == ClientHello(NAME)


def test_a_real_client_without_a_name_is_refused() -> None:
    with pytest.raises(Malformed, match="names no server"):
        HelloReader().feed(openssl(None))


@given(cuts(), st.integers(1, 300))
def test_any_cutting_and_any_records_give_the_same_name(lengths: list[int], size: int) -> None:
    data = records(message((16, b"\0\3\2h2"), sni(b"web.example"), (43, b"\2\3\4")), size)
    assert read(data, lambda each: cut_up(each, lengths)) == ClientHello(NAME)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"GET / HTTP/1.1\r\n", "not a TLS handshake"),
        (b"SSH-2.0-x", "not a TLS handshake"),
        (b"\x17\3\3\0\1x", "not a TLS handshake"),
        (b"\x80\x2e\1\0\2", "not a TLS handshake"),
        (b"\x16\2\0", "not a TLS version"),
        (b"\x16\3\1\0\0", "TLS record is empty or too large"),
        (b"\x16\3\1\x40\1", "TLS record is empty or too large"),
        (records(b"\2" + vector(3, b"")), "not a ClientHello"),
        (records(b"\1\1\0\0"), "ClientHello is too large"),
        (records(message()), "names no server"),
        (records(message(sni(b"web.example"), sni(b"web.example"))), "an extension twice"),
        (records(message(sni(b"web.example"), (21, b""), (21, b""))), "an extension twice"),
        (records(message(sni(b"web.example", b"evil.example"))), "octets that mean nothing"),
        (records(message(sni(b"web.example", kind=1))), "of an unknown kind"),
        (records(message((0, b"\0\0"))), "out of range"),
        (records(message(sni(b""))), "out of range"),
        (records(message(sni(b"203.0.113.5"))), "an address is not a host name"),
        (records(message(sni(b"web.example\0.evil.example"))), "not a host name"),
        (records(message(sni(b"web.example."))), "not a host name"),
        (records(message(sni(b"web.example"), (0xFE0D, b"\0"))), "is encrypted"),
        (records(message(sni(b"web.example"), (0xFFCE, b"\0"))), "is encrypted"),
        (records(message(sni(b"web.example"), tail=b"x")), "octets that mean nothing"),
        (records(message(sni(b"web.example"), suites=b"\x13\x01\x13")), "cut short"),
        (records(message(sni(b"web.example")) + b"x"), "something follows"),
        (records(message(sni(b"web.example"), (65000, bytes(40000)))), "too large"),
        (records(b"\1" + vector(3, body(sni(b"web.example"))[:-3])), "cut short"),
    ],
)
def test_what_is_not_one_open_name_is_refused(data: bytes, what: str) -> None:
    for way in WAYS:
        with pytest.raises(Malformed, match=what):
            read(data, way)


def test_an_error_stays() -> None:
    reader = HelloReader()
    for _ in range(2):
        with pytest.raises(Malformed):
            reader.feed(b"x")


@given(st.binary(max_size=200))
def test_any_octets_are_refused_or_waited_for_within_the_limit(data: bytes) -> None:
    reader = HelloReader()
    try:
        reader.feed(records(b"\1\0\x7f\xff" + data))
    except Malformed:
        return
    assert len(reader.octets) <= HELLO_LIMIT + 1024


def test_nothing_goes_on_before_the_name_is_known_and_is_the_right_one() -> None:
    data = records(message(sni(b"web.example")))
    opening = hello_for(NAME)
    assert opening(data[:-1]) is None
    assert opening(data[-1:] + b"early data") == data + b"early data"
    with pytest.raises(Malformed, match="another name"):
        hello_for(HostName("other.example"))(data)


def test_a_hello_in_very_many_pieces_is_not_put_together() -> None:
    whole = message(sni(b"web.example"))
    padded = whole[:1] + (20_000).to_bytes(3) + whole[4:] + bytes(20_000)
    reader = HelloReader()
    with pytest.raises(Malformed, match="too large"):
        reader.feed(records(padded, size=1))
    assert len(reader._message) < 2000
