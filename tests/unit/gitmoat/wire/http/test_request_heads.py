"""What a request head becomes, and that it does not matter how its bytes arrive."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.http.heads import (
    Chunked,
    Length,
    NoBody,
    RequestHead,
    RequestReader,
    format_request,
    framing_headers,
)
from gitmoat.wire.malformed import Malformed
from tests.fakes.chunking import WAYS, cut_up, cuts

GIT_GET = (
    b"GET /github.com/acme/app.git/info/refs?service=git-upload-pack HTTP/1.1\r\n"
    b"Host: 127.0.0.1:419\r\nUser-Agent: git/2.39.5\r\nAccept: */*\r\n"
    b"Accept-Encoding: deflate, gzip, br, zstd\r\nPragma: no-cache\r\n"
    b"Git-Protocol: version=2\r\n\r\n"
)
GIT_POST = (
    b"POST /github.com/acme/app.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1:419\r\n"
    b"Content-Type: application/x-git-receive-pack-request\r\n"
)
ACCEPTED: dict[str, tuple[bytes, RequestHead]] = {
    "get": (
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        RequestHead(b"GET", b"/", ((b"host", b"h"),), NoBody(), False, False),
    ),
    "names become lower case, blanks around values go": (
        b"GET /a?b=%2f HTTP/1.1\r\nHOST:\t h:1 \r\nX-Empty:\r\nX-Two: a\tb c\r\n\r\n",
        RequestHead(
            b"GET",
            b"/a?b=%2f",
            ((b"host", b"h:1"), (b"x-empty", b""), (b"x-two", b"a\tb c")),
            NoBody(),
            False,
            False,
        ),
    ),
    "length": (
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nConnection: Close\r\n\r\n",
        RequestHead(
            b"POST",
            b"/x",
            ((b"host", b"h"), (b"content-length", b"12"), (b"connection", b"Close")),
            Length(12),
            False,
            True,
        ),
    ),
    "chunked with expectation": (
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
        b"Expect: 100-Continue\r\nConnection: keep-alive\r\n\r\n",
        RequestHead(
            b"POST",
            b"/x",
            (
                (b"host", b"h"),
                (b"transfer-encoding", b"chunked"),
                (b"expect", b"100-Continue"),
                (b"connection", b"keep-alive"),
            ),
            Chunked(),
            True,
            False,
        ),
    ),
    "another protocol is offered, as curl does, and not taken": (
        b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nAccept: */*\r\n\r\n",
        RequestHead(
            b"GET",
            b"/x",
            (
                (b"host", b"h"),
                (b"connection", b"Upgrade, HTTP2-Settings"),
                (b"accept", b"*/*"),
            ),
            NoBody(),
            False,
            False,
        ),
    ),
    "the same by a client that closes": (
        b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close,\tUPGRADE\r\nUpgrade: a, b\r\n"
        b"Upgrade: c\r\n\r\n",
        RequestHead(
            b"GET",
            b"/x",
            ((b"host", b"h"), (b"connection", b"close,\tUPGRADE")),
            NoBody(),
            False,
            True,
        ),
    ),
    "post without a body": (
        b"POST /x HTTP/1.1\r\nHost: h\r\n\r\n",
        RequestHead(b"POST", b"/x", ((b"host", b"h"),), NoBody(), False, False),
    ),
}


def read(pieces: Iterator[bytes]) -> tuple[RequestHead | None, bytes]:
    """The head and what came behind it, fed as a connection would."""
    reader = RequestReader()
    for piece in pieces:
        head = reader.feed(piece)
        if head is not None:
            return head, reader.leftover + b"".join(pieces)
    return None, b""


@pytest.mark.parametrize("trailing", [b"", b"\r\n", b"GET / HTTP/1.1\r\n"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ACCEPTED)
def test_head_is_the_same_however_it_arrives(
    name: str, way: Callable[[bytes], Iterator[bytes]], trailing: bytes
) -> None:
    raw, expected = ACCEPTED[name]
    assert read(way(raw + trailing)) == (expected, trailing)


@pytest.mark.parametrize("name", ACCEPTED)
def test_no_head_before_its_last_byte(name: str) -> None:
    raw, _ = ACCEPTED[name]
    reader = RequestReader()
    assert reader.feed(raw[:-1]) is None


def test_what_git_sends_is_accepted() -> None:
    head, _ = read(iter([GIT_GET]))
    assert head is not None and head.header(b"git-protocol") == b"version=2"
    head, _ = read(iter([GIT_POST + b"Transfer-Encoding: chunked\r\n\r\n"]))
    assert head is not None and head.framing == Chunked()


def test_repeated_header_cannot_be_asked_for() -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\nX: 1\r\nx: 2\r\n\r\n"
    head, _ = read(iter([raw]))
    assert head is not None and head.header(b"y") is None
    with pytest.raises(Malformed):
        head.header(b"x")


def test_head_does_not_show_its_headers() -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic c2VjcmV0\r\n\r\n"
    head, _ = read(iter([raw]))
    assert "c2VjcmV0" not in repr(head)


def test_reader_is_single_use() -> None:
    reader = RequestReader()
    assert reader.feed(GIT_GET) is not None
    with pytest.raises(RuntimeError):
        reader.feed(GIT_GET)


def test_error_is_sticky() -> None:
    reader = RequestReader()
    with pytest.raises(Malformed) as first:
        reader.feed(b"get / HTTP/1.1\r\n")
    with pytest.raises(Malformed) as second:
        reader.feed(GIT_GET)
    assert vars(first.value) == vars(second.value)


@pytest.mark.parametrize("way", WAYS)
def test_head_over_the_limit_is_refused_with_431(way: Callable[[bytes], Iterator[bytes]]) -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 20000 + b"\r\n\r\n"
    with pytest.raises(Malformed) as refused:
        read(way(raw))
    assert refused.value.status == 431


def test_head_of_exactly_the_limit_is_accepted() -> None:
    reader = RequestReader(limit=len(GIT_GET))
    assert reader.feed(GIT_GET + b"x") is not None
    assert reader.leftover == b"x"
    with pytest.raises(Malformed):
        RequestReader(limit=len(GIT_GET) - 1).feed(GIT_GET)


@given(st.binary(max_size=2000), cuts())
def test_reader_holds_no_more_than_its_limit(tail: bytes, lengths: list[int]) -> None:
    reader = RequestReader(limit=100)
    fed = 0
    try:
        for piece in cut_up(b"GET / HTTP/1.1\r\nX: " + tail.replace(b"\n", b""), lengths):
            reader.feed(piece)
            fed += len(piece)
            assert fed < 100
    except Malformed:
        assert fed < 100


TOKENS = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12)
VALUES = st.from_regex(rb"[!-~](?:[!-~ \t]{0,30}[!-~])?", fullmatch=True)
FRAMINGS = st.one_of(st.just(NoBody()), st.just(Chunked()), st.integers(0, 2**48).map(Length))


@given(
    st.from_regex(rb"/[a-zA-Z0-9._~%/?=&-]{0,60}", fullmatch=True),
    st.lists(st.tuples(TOKENS.map(lambda text: b"x-" + text.encode()), VALUES), max_size=20),
    FRAMINGS,
    st.binary(max_size=30),
    cuts(),
)
def test_written_head_is_read_back_in_any_chunking(
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    framing: NoBody | Length | Chunked,
    trailing: bytes,
    lengths: list[int],
) -> None:
    lines = [(b"host", b"h"), *headers, *framing_headers(framing)]
    raw = format_request(b"POST", target, lines)
    head, rest = read(cut_up(raw + trailing, lengths))
    expected = tuple((name.lower(), value) for name, value in lines)
    assert head == RequestHead(b"POST", target, expected, framing, False, False)
    assert rest == trailing


@given(st.binary(max_size=200), cuts())
def test_any_bytes_are_judged_the_same_in_any_chunking(raw: bytes, lengths: list[int]) -> None:
    assert verdict(cut_up(raw, lengths)) == verdict(iter([raw]))


@given(
    st.lists(
        st.sampled_from(
            [
                b"GET / HTTP/1.1", b"\r\n", b"\n", b"\r", b"Host: h", b"X: y", b" ", b"\t", b"\0",
                b"Content-Length: 1", b"Transfer-Encoding: chunked", b":", b"POST /x HTTP/1.1",
            ]
        ),
        max_size=14,
    ),
    cuts(),
)  # fmt: skip
def test_near_requests_are_judged_the_same_in_any_chunking(
    parts: list[bytes], lengths: list[int]
) -> None:
    raw = b"".join(parts)
    assert verdict(cut_up(raw, lengths)) == verdict(iter([raw]))


def verdict(pieces: Iterator[bytes]) -> object:
    try:
        return read(pieces)
    except Malformed as refused:
        return refused.what, refused.status


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        (b"GET", b"/a b", []),
        (b"GET", b"/a\r\nX: y", []),
        (b"get", b"/", []),
        (b"GET", b"http://h:/", []),
        (b"GET", b"/", [(b"X", b"a\r\nY: b")]),
        (b"GET", b"/", [(b"X", b"a\nY: b")]),
        (b"GET", b"/", [(b"X Y", b"a")]),
        (b"GET", b"/", [(b"X:", b"a")]),
        (b"GET", b"/", [(b"", b"a")]),
        (b"GET", b"/", [(b"X", b"\xff")]),
        (b"GET", b"/", [(b"X", b"")]),
        (b"GET", b"/", [(b"X", b" a")]),
    ],
)
def test_nothing_ambiguous_is_ever_written(
    method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(ValueError, match="we may send"):
        format_request(method, target, headers)
