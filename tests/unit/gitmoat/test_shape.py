"""The one strict reader: what it takes, what it refuses, and what its errors say."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.shape import (
    Misshapen,
    Shape,
    choice,
    collection,
    flag,
    key,
    member,
    number,
    optional,
    parsed,
    read,
    read_json,
    several,
    table,
    tagged,
    text,
    write,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Inner:
    low: int = key(number(0, 9))
    high: int = key(number(0, 9))

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low must not be above high")


@frozen
class Outer:
    name: str = key(text(8), hint='write name = "short"')
    range: Inner = key(table(Inner))
    on: bool = key(flag(), False)
    kind: str = key(choice("one", "two"), "one")
    colour: Colour = key(member(Colour), Colour.RED)
    many: tuple[int, ...] = key(several(number(1, 5), most=3), ())
    any_order: frozenset[str] = key(collection(text()), frozenset())
    maybe: int | None = key(optional(number(1, 5)), None)
    hexed: bytes = key(parsed(bytes.fromhex, bytes.hex, most=8), b"")


LEAST: dict[str, object] = {"name": "n", "range": {"low": 1, "high": 2}}
MOST: dict[str, object] = {
    **LEAST,
    "on": True,
    "kind": "two",
    "colour": "blue",
    "many": [3, 1],
    "any_order": ["a", "b"],
    "maybe": 4,
    "hexed": "00ff",
}


def test_a_message_is_read_and_written_as_it_was() -> None:
    found = read(Outer, MOST)
    assert (found.name, found.range.high, found.on, found.colour) == ("n", 2, True, Colour.BLUE)
    assert (found.many, found.any_order, found.hexed) == ((3, 1), frozenset("ab"), b"\0\xff")
    assert write(found) == MOST


def test_a_key_that_has_its_default_is_not_written() -> None:
    assert write(read(Outer, LEAST)) == LEAST


@pytest.mark.parametrize(
    ("changes", "path", "what"),
    [
        ({"nome": 1}, "nome", "unknown key"),
        ({"range": {"low": 1, "high": 2, "x": 3}}, "range.x", "unknown key"),
        ({"range": {"low": 1}}, "range.high", "is missing"),
        ({"range": {"low": 3, "high": 2}}, "range", "low must not be above high"),
        ({"range": []}, "range", "must be a table"),
        ({"range": {1: 2}}, "range", "has a key that is not text"),
        ({"name": 5}, "name", "must be text"),
        ({"name": ""}, "name", "must be 1 to 8 printable characters"),
        ({"name": "a\nb"}, "name", "must be 1 to 8 printable characters"),
        ({"name": "123456789"}, "name", "must be 1 to 8 printable characters"),
        ({"on": 1}, "on", "must be true or false"),
        ({"on": None}, "on", "must be true or false"),
        ({"kind": "three"}, "kind", "not one of: one, two"),
        ({"kind": ["one"]}, "kind", "not one of: one, two"),
        ({"colour": "RED"}, "colour", "not one of: red, blue"),
        ({"many": "12"}, "many", "must be a list"),
        ({"many": [1, 2, 3, 4]}, "many", "must have 0 to 3 entries"),
        ({"many": [1, True]}, "many[1]", "must be a whole number from 1 to 5"),
        ({"many": [1, 1]}, "many[1]", "is listed twice"),
        ({"maybe": 6}, "maybe", "must be a whole number from 1 to 5"),
        ({"maybe": 2.0}, "maybe", "must be a whole number from 1 to 5"),
        ({"maybe": "2"}, "maybe", "must be a whole number from 1 to 5"),
        ({"hexed": b"00"}, "hexed", "must be text of at most 8 characters"),
        ({"hexed": "000000000"}, "hexed", "must be text of at most 8 characters"),
    ],
)
def test_anything_else_is_refused_with_its_path(
    changes: dict[str, object], path: str, what: str
) -> None:
    with pytest.raises(Misshapen) as caught:
        read(Outer, LEAST | changes)
    assert (caught.value.path, caught.value.what) == (path, what)


def test_a_hint_says_what_to_write() -> None:
    with pytest.raises(Misshapen) as caught:
        read(Outer, {"range": LEAST["range"]})
    assert caught.value.hint == 'write name = "short"'
    with pytest.raises(Misshapen) as caught:
        read(Outer, LEAST | {"name": 1})
    assert caught.value.hint == 'write name = "short"'
    with pytest.raises(Misshapen) as caught:
        read(Outer, LEAST | {"nane": "x"})
    assert caught.value.hint == "did you mean `name`?"
    with pytest.raises(Misshapen) as caught:
        read(Inner, {"zzz": 1}, "deep")
    assert (caught.value.path, caught.value.hint) == ("deep.zzz", "known here: high, low")


def test_an_error_does_not_quote_a_value() -> None:
    for wrong in ({"name": "secret-value-that-is-long"}, {"kind": "secret"}, {"hexed": "secret"}):
        with pytest.raises(Misshapen) as caught:
            read(Outer, LEAST | wrong)
        assert "secret" not in str(caught.value)


@frozen
class Go:
    speed: int = key(number(0, 9))


@frozen
class Halt:
    pass


ORDER: Shape[Any] = tagged("op", {"go": Go, "halt": Halt})


def test_one_of_several_is_told_by_its_tag() -> None:
    assert ORDER.read({"op": "go", "speed": 3}, "") == Go(speed=3)
    assert ORDER.write(Go(speed=3)) == {"op": "go", "speed": 3}
    assert ORDER.write(Halt()) == {"op": "halt"}
    for wrong, path in (
        ({"speed": 3}, "op"),
        ({"op": "fly"}, "op"),
        ({"op": 1}, "op"),
        ({"op": "halt", "speed": 3}, "speed"),
        ({"op": "go"}, "speed"),
    ):
        with pytest.raises(Misshapen) as caught:
            ORDER.read(wrong, "")
        assert caught.value.path == path


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1, "a": 2}'],
)
def test_what_readers_of_json_differ_about_is_refused(data: bytes) -> None:
    with pytest.raises(Misshapen):
        read_json(data, 1 << 20)


def test_json_is_bounded_before_it_is_parsed() -> None:
    assert read_json(b'{"a": [1, null]}', 16) == {"a": [1, None]}
    with pytest.raises(Misshapen):
        read_json(b'{"a": [1, null]} ', 16)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(MOST)), JSON)
def test_no_value_makes_it_fail_in_another_way(name: str, value: object) -> None:
    try:
        found = read(Outer, MOST | {name: value})
    except Misshapen as error:
        assert error.path
    else:
        assert read(Outer, write(found)) == found
