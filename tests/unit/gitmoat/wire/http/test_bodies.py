"""Where a body ends, whatever its framing and however it arrives."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.http.heads import (
    LAST_CHUNK,
    Chunked,
    Framing,
    Length,
    NoBody,
    UntilClose,
    body_reader,
    chunk,
    framing_headers,
)
from gitmoat.wire.malformed import Malformed
from tests.fakes.chunking import WAYS, cut_up, cuts

VECTORS: dict[str, tuple[Framing, bytes, bytes]] = {
    "length": (Length(5), b"hello", b"hello"),
    "chunks": (Chunked(), b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello"),
    "one chunk, capital digits, leading zeros": (
        Chunked(),
        b"000A\r\n0123456789\r\n000\r\n\r\n",
        b"0123456789",
    ),
    "payload that looks like framing": (
        Chunked(),
        b"5\r\n0\r\n\r\n\r\n0\r\n\r\n",
        b"0\r\n\r\n",
    ),
    "empty chunks": (Chunked(), b"0\r\n\r\n", b""),
    "chunk size of 16 digits": (Chunked(), b"0000000000000001\r\na\r\n0\r\n\r\n", b"a"),
}


@pytest.mark.parametrize("trailing", [b"", b"GET / HTTP/1.1\r\n", b"\r\n"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VECTORS)
def test_body_ends_where_it_should_however_it_arrives(
    name: str, way: Callable[[bytes], Iterator[bytes]], trailing: bytes
) -> None:
    framing, raw, payload = VECTORS[name]
    assert read(framing, way(raw + trailing)) == (payload, trailing)


@pytest.mark.parametrize("name", VECTORS)
def test_body_cut_anywhere_has_no_clean_end(name: str) -> None:
    framing, raw, _ = VECTORS[name]
    for at in range(len(raw)):
        reader = body_reader(framing)
        reader.feed(raw[:at])
        assert not reader.done
        with pytest.raises(Malformed):
            reader.finish()


@pytest.mark.parametrize("name", VECTORS)
def test_whole_body_may_be_followed_by_the_end_but_not_by_more(name: str) -> None:
    framing, raw, _ = VECTORS[name]
    reader = body_reader(framing)
    reader.feed(raw)
    reader.finish()
    with pytest.raises(Malformed):
        reader.feed(b"x")


def test_chunks_are_shown_where_they_lie_unless_there_are_many() -> None:
    few = b"".join(b"".join(chunk(b"x" * size)) for size in range(1, 33))
    pieces = body_reader(Chunked()).feed(few)
    assert [len(piece) for piece in pieces] == list(range(1, 33))
    assert all(isinstance(piece, memoryview) and piece.obj is few for piece in pieces)
    many = few + b"1\r\ny\r\n"
    assert body_reader(Chunked()).feed(many) == [b"x" * sum(range(1, 33)) + b"y"]


def test_pieces_make_one_chunk() -> None:
    assert b"".join(chunk(b"ab", memoryview(b"cdefghijkl"))) == b"c\r\nabcdefghijkl\r\n"


@pytest.mark.parametrize("framing", [NoBody(), Length(0)])
def test_nothing_is_whole_at_once(framing: Framing) -> None:
    reader = body_reader(framing)
    assert reader.done and reader.leftover == b""
    reader.finish()


def test_body_until_close_is_whole_only_at_the_end() -> None:
    reader = body_reader(UntilClose())
    before = reader.feed(b"a"), reader.feed(b""), reader.done
    reader.finish()
    assert before == ([b"a"], [], False) and reader.done
    with pytest.raises(Malformed):
        reader.feed(b"b")


def test_whole_pieces_are_passed_on_without_a_copy() -> None:
    data = bytes(65536)
    assert body_reader(Length(2**30)).feed(data)[0] is data
    assert body_reader(Length(65536)).feed(data)[0] is data


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=8), st.binary(max_size=9), cuts())
def test_written_chunks_are_read_back_in_any_chunking(
    pieces: list[bytes], trailing: bytes, lengths: list[int]
) -> None:
    raw = b"".join(b"".join(chunk(piece)) for piece in pieces) + LAST_CHUNK
    assert read(Chunked(), cut_up(raw + trailing, lengths)) == (b"".join(pieces), trailing)


@given(st.binary(max_size=80), cuts())
def test_any_bytes_are_judged_the_same_in_any_chunking(raw: bytes, lengths: list[int]) -> None:
    assert verdict(cut_up(raw, lengths)) == verdict(iter([raw]))


@given(
    st.lists(st.sampled_from([b"0", b"1", b"a", b"\r\n", b"\r", b"\n", b";", b" "]), max_size=14),
    cuts(),
)
def test_near_chunks_are_judged_the_same_in_any_chunking(
    parts: list[bytes], lengths: list[int]
) -> None:
    raw = b"".join(parts)
    assert verdict(cut_up(raw, lengths)) == verdict(iter([raw]))


@given(st.binary(max_size=200), cuts())
def test_chunk_reader_holds_less_than_a_size_line(raw: bytes, lengths: list[int]) -> None:
    """What it returns, leaves over or holds is all there is: held is what is missing."""
    reader = body_reader(Chunked())
    try:
        for piece in cut_up(raw, lengths):
            reader.feed(piece)
            assert len(getattr(reader, "_held")) < 18  # noqa: B009
            if reader.done:
                break
    except Malformed:
        pass


def test_framing_is_announced_in_one_spelling() -> None:
    assert framing_headers(Length(7)) == ((b"Content-Length", b"7"),)
    assert framing_headers(Chunked()) == ((b"Transfer-Encoding", b"chunked"),)
    assert framing_headers(NoBody()) == framing_headers(UntilClose()) == ()


@pytest.mark.parametrize("octets", [-1, 2**48 + 1])
def test_impossible_lengths_cannot_be_made(octets: int) -> None:
    with pytest.raises(ValueError, match="octets"):
        Length(octets)


def test_empty_chunk_cannot_be_written_by_mistake() -> None:
    with pytest.raises(ValueError, match="last"):
        chunk(b"")


def read(framing: Framing, pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    reader = body_reader(framing)
    got: list[bytes | memoryview] = []
    for piece in pieces:
        got += reader.feed(piece)
        if reader.done:
            break
    assert reader.done and all(got)
    return b"".join(got), reader.leftover + b"".join(pieces)


def verdict(pieces: Iterator[bytes]) -> object:
    """Payload before the end or the error, and which of them it was."""
    reader = body_reader(Chunked())
    try:
        for piece in pieces:
            reader.feed(piece)
            if reader.done:
                return True, reader.leftover + b"".join(pieces)
    except Malformed as refused:
        return refused.what
    return None
