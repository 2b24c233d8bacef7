"""Feeding a reader the same bytes in every way a network may cut them."""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def byte_by_byte(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        yield data[at : at + 1]


def halves(data: bytes) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    yield data[len(data) // 2 :]


WAYS: tuple[Callable[[bytes], Iterator[bytes]], ...] = (whole, byte_by_byte, halves)


def cuts() -> st.SearchStrategy[list[int]]:
    """Lengths of the pieces, to be used over and over."""
    return st.lists(st.integers(1, 40), min_size=1, max_size=8)


def cut_up(data: bytes, lengths: list[int]) -> Iterator[bytes]:
    at = turn = 0
    while at < len(data):
        step = lengths[turn % len(lengths)]
        yield data[at : at + step]
        at, turn = at + step, turn + 1
