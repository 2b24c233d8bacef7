"""What an upstream's head becomes, and what is refused of it."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.http.heads import (
    Chunked,
    Framing,
    Length,
    NoBody,
    ResponseHead,
    ResponseReader,
    UntilClose,
    format_response,
    framing_headers,
)
from gitmoat.wire.malformed import Malformed
from tests.fakes.chunking import WAYS, cut_up, cuts

END = b"\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

ACCEPTED: dict[str, tuple[bytes, int, Framing, bool]] = {
    "length": (OK + b"Content-Length: 5" + END, 200, Length(5), False),
    "chunked": (OK + b"Transfer-Encoding: chunked" + END, 200, Chunked(), False),
    "until close": (OK + b"Server: x" + END, 200, UntilClose(), True),
    "close": (OK + b"Content-Length: 5\r\nConnection: close" + END, 200, Length(5), True),
    "close among others": (
        OK + b"Content-Length: 5\r\nConnection: Upgrade , Close" + END,
        200,
        Length(5),
        True,
    ),
    "upgrade offered, as Apache does": (
        OK + b"Upgrade: h2\r\nConnection: Upgrade\r\nContent-Length: 0" + END,
        200,
        Length(0),
        False,
    ),
    "no content": (b"HTTP/1.1 204 No Content" + END, 204, NoBody(), False),
    "not modified": (b"HTTP/1.1 304 x\r\nContent-Length: 9" + END, 304, NoBody(), False),
    "no reason": (b"HTTP/1.1 502\r\nContent-Length: 0" + END, 502, Length(0), False),
    "empty reason": (b"HTTP/1.1 502 \r\nContent-Length: 0" + END, 502, Length(0), False),
    "behind 100": (CONTINUE + OK + b"Content-Length: 5" + END, 200, Length(5), False),
    "behind hints": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>" + END + OK + b"Content-Length: 5" + END,
        200,
        Length(5),
        False,
    ),
    "behind four": (CONTINUE * 4 + OK + b"Content-Length: 5" + END, 200, Length(5), False),
}
REFUSED: dict[str, bytes] = {
    "length and coding": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked" + END,
    "coding and length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5" + END,
    "length twice": OK + b"Content-Length: 5\r\nContent-Length: 5" + END,
    "length list": OK + b"Content-Length: 5, 5" + END,
    "length signed": OK + b"Content-Length: +5" + END,
    "coding list": OK + b"Transfer-Encoding: gzip, chunked" + END,
    "coding identity": OK + b"Transfer-Encoding: identity" + END,
    "folded": OK + b"X: a\r\n b" + END,
    "bare LF": b"HTTP/1.1 200 OK\nX: a\n\n",
    "bare CR": OK + b"X: a\rY: b" + END,
    "NUL": OK + b"X: a\0" + END,
    "header injection": OK + b"X y: a" + END,
    "HTTP/1.0": b"HTTP/1.0 200 OK" + END,
    "HTTP/2": b"HTTP/2 200" + END,
    "ICY": b"ICY 200 OK" + END,
    "no status": b"HTTP/1.1 OK" + END,
    "status 600": b"HTTP/1.1 600 x" + END,
    "status 099": b"HTTP/1.1 099 x" + END,
    "long status": b"HTTP/1.1 2000 x" + END,
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c" + END,
    "five interim": CONTINUE * 5,
    "interim with a body": b"HTTP/1.1 100 Continue\r\nContent-Length: 4" + END,
    "interim with chunks": b"HTTP/1.1 103 x\r\nTransfer-Encoding: chunked" + END,
    "chunks without content": b"HTTP/1.1 204 x\r\nTransfer-Encoding: chunked" + END,
    "leading line end": b"\r\n" + OK + END,
    "too many headers": OK + b"X: y\r\n" * 129 + b"\r\n",
    "too long": OK + b"X: " + b"a" * 70000 + END,
    "too long together": (b"HTTP/1.1 100 x\r\nX: " + b"a" * 20000 + END) * 4,
    "html": b"<html>",
}


def read(
    pieces: Iterator[bytes], reader: ResponseReader | None = None
) -> tuple[ResponseHead | None, bytes]:
    reader = ResponseReader() if reader is None else reader
    for piece in pieces:
        head = reader.feed(piece)
        if head is not None:
            return head, reader.leftover + b"".join(pieces)
    return None, b""


@pytest.mark.parametrize("trailing", [b"", b"hello", OK])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ACCEPTED)
def test_head_is_the_same_however_it_arrives(
    name: str, way: Callable[[bytes], Iterator[bytes]], trailing: bytes
) -> None:
    raw, status, framing, close = ACCEPTED[name]
    head, rest = read(way(raw + trailing))
    assert head is not None and rest == trailing
    assert (head.status, head.framing, head.close) == (status, framing, close)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_strange_head_is_refused(name: str, way: Callable[[bytes], Iterator[bytes]]) -> None:
    with pytest.raises(Malformed):
        read(way(REFUSED[name]))


def test_answer_to_head_has_no_body() -> None:
    raw = OK + b"Content-Length: 5" + END
    head, rest = read(iter([raw]), ResponseReader(to_head=True))
    assert head is not None and head.framing == NoBody() and rest == b""


def test_headers_of_interim_answers_are_not_kept() -> None:
    raw = b"HTTP/1.1 103 x\r\nX: early" + END + OK + b"Content-Length: 0" + END
    head, _ = read(iter([raw]))
    assert head is not None and head.header(b"x") is None


def test_error_is_sticky() -> None:
    reader = ResponseReader()
    with pytest.raises(Malformed):
        reader.feed(b"nonsense")
    with pytest.raises(Malformed):
        reader.feed(OK + b"Content-Length: 0" + END)


@given(
    st.sampled_from([200, 400, 404, 429, 502, 599]),
    st.one_of(st.just(Chunked()), st.integers(0, 2**48).map(Length)),
    st.binary(max_size=20),
    cuts(),
)
def test_written_head_is_read_back_in_any_chunking(
    status: int, framing: Length | Chunked, trailing: bytes, lengths: list[int]
) -> None:
    raw = format_response(status, ((b"Content-Type", b"text/plain"), *framing_headers(framing)))
    head, rest = read(cut_up(raw + trailing, lengths))
    assert head is not None and rest == trailing
    assert (head.status, head.framing) == (status, framing)


@given(st.binary(max_size=200), cuts())
def test_any_bytes_are_judged_the_same_in_any_chunking(raw: bytes, lengths: list[int]) -> None:
    raw = b"HTTP/1.1 200 OK\r\n" + raw
    assert verdict(cut_up(raw, lengths)) == verdict(iter([raw]))


def verdict(pieces: Iterator[bytes]) -> object:
    try:
        return read(pieces)
    except Malformed as refused:
        return refused.what
