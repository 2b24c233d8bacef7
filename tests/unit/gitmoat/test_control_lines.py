"""Lines of a control socket, however they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.control.lines import LineReader, TooLong, line_of, object_of

LIMIT = 64
lines = st.lists(st.binary(max_size=LIMIT).filter(lambda line: b"\n" not in line), max_size=5)


@given(lines, st.lists(st.integers(1, 40), min_size=1))
def test_any_chunking_gives_the_same_lines(sent: list[bytes], sizes: list[int]) -> None:
    stream, reader, found = b"".join(line + b"\n" for line in sent), LineReader(LIMIT), []
    while stream:
        size, sizes = sizes[0], [*sizes[1:], sizes[0]]
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == sent


@pytest.mark.parametrize(
    "data", [b"x" * (LIMIT + 1), b"x" * (LIMIT + 1) + b"\n", b"a\n" + b"y" * 99]
)
def test_a_line_has_a_bound_whether_it_ends_or_not(data: bytes) -> None:
    with pytest.raises(TooLong):
        LineReader(LIMIT).feed(data)


@pytest.mark.parametrize("line", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 50_000])
def test_what_is_no_object_is_none(line: bytes) -> None:
    assert object_of(line) is None


def test_a_line_is_read_as_it_was_said() -> None:
    said = {"op": "run", "argv": ["ü", "\udc80", "a\nb"]}
    (line,) = LineReader(LIMIT * 4).feed(line_of(said))
    assert object_of(line) == said
