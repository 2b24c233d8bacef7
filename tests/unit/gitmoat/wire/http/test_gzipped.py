"""A compressed body is one whole member of a bounded size, or it is refused."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.http.gzipped import GzipReader
from gitmoat.wire.malformed import Malformed
from tests.fakes.chunking import WAYS, cut_up, cuts

BODY = b"0032want " + b"1" * 40 + b"\n0000" * 30
LIMIT = 1 << 20


def refusal(pieces: list[bytes], limit: int = LIMIT) -> Malformed | None:
    reader = GzipReader(limit)
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.finish()
    except Malformed as malformed:
        return malformed
    return None


@pytest.mark.parametrize("way", WAYS)
def test_one_member_is_taken_however_it_is_cut(way: object) -> None:
    assert callable(way)
    assert refusal(list(way(gzip.compress(BODY)))) is None


def test_a_member_may_be_empty() -> None:
    assert refusal([gzip.compress(b"")]) is None


MEMBER = gzip.compress(BODY)
BAD = {
    "nothing": b"",
    "two members": MEMBER + MEMBER,
    "an empty second member": MEMBER + gzip.compress(b""),
    "bytes behind": MEMBER + b"x",
    "zeros behind": MEMBER + bytes(8),
    "cut": MEMBER[:-1],
    "cut early": MEMBER[:12],
    "wrong checksum": MEMBER[:-8] + bytes(4) + MEMBER[-4:],
    "wrong size": MEMBER[:-4] + bytes(4),
    "zlib": zlib.compress(BODY),
    "deflate": zlib.compress(BODY)[2:-4],
    "plain": BODY,
    "not quite gzip": b"\x1f\x8b\x07" + MEMBER[3:],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_refused(name: str, way: object) -> None:
    assert callable(way)
    refused = refusal(list(way(BAD[name])))
    assert refused is not None and refused.status == 400


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < 100_000
    refused = refusal([bomb])
    assert refused is not None and refused.status == 413


def test_exactly_the_limit_is_taken() -> None:
    assert refusal([gzip.compress(bytes(LIMIT))]) is None
    assert refusal([gzip.compress(bytes(LIMIT + 1))]) is not None


def test_a_refusal_is_for_good() -> None:
    reader = GzipReader(LIMIT)
    for data in (b"x" * 20, MEMBER, b""):
        with pytest.raises(Malformed):
            reader.feed(data)
    with pytest.raises(Malformed):
        reader.finish()


@given(st.binary(max_size=2000), cuts())
def test_any_chunking_is_taken_alike(body: bytes, lengths: list[int]) -> None:
    assert refusal(list(cut_up(gzip.compress(body), lengths))) is None


@given(st.binary(max_size=200), cuts())
def test_any_bytes_are_judged_alike_in_any_chunking(raw: bytes, lengths: list[int]) -> None:
    data = b"\x1f\x8b\x08" + raw
    whole, pieces = refusal([data]), refusal(list(cut_up(data, lengths)))
    assert (whole is None) == (pieces is None)
