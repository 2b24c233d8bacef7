from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.messages.sidecar import (
    DIAL,
    Activate,
    Connection,
    DialFailed,
    Order,
    Pins,
    Stop,
    Verifying,
    format_order,
    parse_order,
    ready,
)
from gitmoat.shape import Misshapen

KEY = b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def test_what_the_sidecar_says_is_of_one_fixed_size() -> None:
    assert len(DIAL) == 33
    assert b"D" + bytes(32) == DIAL
    assert ready(b"k" * 32) == b"R" + b"k" * 32
    with pytest.raises(ValueError, match="32"):
        ready(b"short")


@pytest.mark.parametrize(
    ("data", "descriptors", "order"),
    [
        (b'{"op":"activate"}', 0, Activate()),
        (b'{"op": "connection"}', 1, Connection()),
        (b'{"op":"dial-failed"}', 0, DialFailed()),
        (b'{"op":"stop"}', 0, Stop()),
        (b'{"op":"verifying","seconds":0}', 0, Verifying(seconds=0)),
        (b'{"op":"verifying","seconds":90}', 0, Verifying(seconds=90)),
        (b'{"op":"pins","keys":["%s"]}' % KEY, 0, Pins(keys=frozenset({bytes(32)}))),
    ],
)
def test_the_orders_of_hostd(data: bytes, descriptors: int, order: Order) -> None:
    assert parse_order(data, descriptors) == order
    assert format_order(order) == data.replace(b" ", b"")


@pytest.mark.parametrize(
    ("data", "descriptors"),
    [
        (b"", 0),
        (b"stop", 0),
        (b'"stop"', 0),
        (b"[]", 0),
        (b'{"op":1}', 0),
        (b'{"op":"reload"}', 0),
        (b'{"op":"pins"}', 0),
        (b'{"op":"verifying"}', 0),
        (b'{"op":"verifying","seconds":91}', 0),
        (b'{"op":"verifying","seconds":-1}', 0),
        (b'{"op":"verifying","seconds":true}', 0),
        (b'{"op":"verifying","seconds":1.5}', 0),
        (b'{"op":"verifying","seconds":"1"}', 0),
        (b'{"op":"verifying","seconds":1}', 1),
        (b'{"op":"verifying","seconds":1,"more":1}', 0),
        (b'{"op":"pins","keys":[]}', 0),
        (b'{"op":"pins","keys":["short"]}', 0),
        (b'{"op":"pins","keys":[1]}', 0),
        (b'{"op":"pins","keys":["%s"],"x":1}' % KEY, 0),
        (b'{"op":"pins","keys":["%s","%s","%s"]}' % (KEY, KEY, KEY), 0),
        (b'{"op":"pins","keys":["%s"]}' % KEY, 1),
        (b'{"op":"stop","now":true}', 0),
        (b'{"op":"connection"}', 0),
        (b'{"op":"connection"}', 2),
        (b'{"op":"activate"}', 1),
        (b"\xff", 0),
        (b"[" * 900, 0),
        (b'{"op":"stop"}' + b" " * 2000, 0),
    ],
)
def test_anything_else_is_refused(data: bytes, descriptors: int) -> None:
    with pytest.raises(Misshapen):
        parse_order(data, descriptors)


@given(st.binary(max_size=64), st.integers(0, 3))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes, descriptors: int) -> None:
    try:
        parse_order(data, descriptors)
    except Misshapen:
        pass
