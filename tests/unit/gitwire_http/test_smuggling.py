"""Requests that two readers could read in two ways: every one is refused, however it arrives."""

from collections.abc import Callable, Iterator

import pytest

from gitwire.errors import Malformed
from gitwire.http import RequestReader, body_reader
from tests.fakes.chunking import WAYS

POST = b"POST /r HTTP/1.1\r\nHost: h\r\n"
GET = b"GET /r HTTP/1.1\r\nHost: h\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"\r\n\r\n"

# Each form in at least two spellings; the source is the corpus that Twisted's parser was tried
# with: first what it refuses itself, then what it takes or leaves hanging.
HEADS: dict[str, list[bytes]] = {
    "length and coding": [
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked" + END,
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4" + END,
        POST + b"content-length:0\r\nTRANSFER-ENCODING:chunked" + END,
    ],
    "length twice": [
        POST + b"Content-Length: 4\r\nContent-Length: 4" + END,
        POST + b"Content-Length: 4\r\ncontent-length: 5" + END,
    ],
    "length as a list": [
        POST + b"Content-Length: 4, 4" + END,
        POST + b"Content-Length: 4,5" + END,
    ],
    "length with a sign": [
        POST + b"Content-Length: +4" + END,
        POST + b"Content-Length: -4" + END,
        POST + b"Content-Length: -0" + END,
    ],
    "length not decimal": [
        POST + b"Content-Length: 0x4" + END,
        POST + b"Content-Length: 4f" + END,
        POST + b"Content-Length: 4.0" + END,
    ],
    "length with underscore or blank": [
        POST + b"Content-Length: 1_0" + END,
        POST + b"Content-Length: 1 0" + END,
        POST + b"Content-Length: " + END,
        POST + b"Content-Length:" + END,
    ],
    "length with leading zeros": [
        POST + b"Content-Length: 04" + END,
        POST + b"Content-Length: 00" + END,
    ],
    "length too large": [
        POST + b"Content-Length: 99999999999999999999" + END,
        POST + b"Content-Length: 999999999999999" + END,
    ],
    "length in foreign digits": [
        POST + b"Content-Length: \xd9\xa4" + END,
        POST + b"Content-Length: \xb2" + END,
    ],
    "blank before the colon": [
        POST + b"Transfer-Encoding : chunked" + END,
        POST + b"Content-Length\t: 4" + END,
    ],
    "coding misspelt": [
        POST + b"Transfer-Encoding: xchunked" + END,
        POST + b"Transfer-Encoding: chunkedx" + END,
        POST + b"Transfer-Encoding: chun ked" + END,
        POST + b"Transfer-Encoding: Chunked" + END,
        POST + b"Transfer-Encoding:" + END,
    ],
    "coding as a list": [
        POST + b"Transfer-Encoding: chunked, identity" + END,
        POST + b"Transfer-Encoding: identity, chunked" + END,
        POST + b"Transfer-Encoding: chunked, chunked" + END,
        POST + b"Transfer-Encoding: gzip, chunked" + END,
        POST + b"Transfer-Encoding: ,chunked" + END,
    ],
    "coding quoted or with parameters": [
        POST + b'Transfer-Encoding: "chunked"' + END,
        POST + b"Transfer-Encoding: 'chunked'" + END,
        POST + b"Transfer-Encoding: chunked;q=1" + END,
    ],
    "coding identity": [
        POST + b"Transfer-Encoding: identity" + END,
        POST + b"transfer-encoding: IDENTITY" + END,
    ],
    "coding twice": [
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity" + END,
        POST + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked" + END,
        POST + b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked" + END,
    ],
    "coding on HTTP/1.0": [
        b"POST /r HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked" + END,
        b"POST /r HTTP/1.0\r\nTransfer-Encoding: chunked" + END,
    ],
    "folded lines": [
        POST + b"Transfer-Encoding:\r\n chunked" + END,
        POST + b"Transfer-Encoding: x\r\n\tchunked" + END,
        GET + b"X: a\r\n b" + END,
        b"GET /r HTTP/1.1\r\n Host: h" + END,
    ],
    "bare CR": [
        GET + b"X: a\rY: b" + END,
        GET + b"X: a\r\r\n\r\n",
        b"GET /r HTTP/1.1\rHost: h\r\n\r\n",
    ],
    "bare LF": [
        GET + b"X: a\nY: b" + END,
        b"GET /r HTTP/1.1\nHost: h\n\n",
        GET[:-2] + b"\n\r\n",
        GET + b"\n",
    ],
    "NUL": [
        GET + b"X: a\0b" + END,
        GET + b"X\0: a" + END,
        b"GET /\0 HTTP/1.1\r\nHost: h" + END,
    ],
    "other control bytes": [
        GET + b"X: a\x0bb" + END,
        GET + b"X: a\x7f" + END,
        GET + b"X: \x1b[31m" + END,
    ],
    "names that are not tokens": [
        GET + b"X Y: a" + END,
        GET + b": a" + END,
        GET + b"X(Y): a" + END,
        GET + b"X\xe9: a" + END,
        GET + b"no colon" + END,
    ],
    "versions": [
        b"GET /r HTTP/1.10\r\nHost: h" + END,
        b"GET /r HTTP/1.0\r\nHost: h" + END,
        b"GET /r HTTP/2.0\r\nHost: h" + END,
        b"GET /r HTTP/01.1\r\nHost: h" + END,
        b"GET /r http/1.1\r\nHost: h" + END,
        b"GET /r HTTP/1.1 \r\nHost: h" + END,
        b"GET /r HTTP/1,1\r\nHost: h" + END,
    ],
    "HTTP/0.9": [b"GET /r\r\n", b"GET /r \r\n\r\n"],
    "blanks in the request line": [
        b"GET  /r HTTP/1.1\r\nHost: h" + END,
        b"GET\t/r HTTP/1.1\r\nHost: h" + END,
        b"GET /r  HTTP/1.1\r\nHost: h" + END,
        b"GET /a b HTTP/1.1\r\nHost: h" + END,
        b" GET /r HTTP/1.1\r\nHost: h" + END,
    ],
    "control or non-ASCII in the target": [
        b"GET /\x01 HTTP/1.1\r\nHost: h" + END,
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h" + END,
        b"GET /\x7f HTTP/1.1\r\nHost: h" + END,
    ],
    "characters no URI has": [
        b"GET /a\\b HTTP/1.1\r\nHost: h" + END,
        b"GET /a#b HTTP/1.1\r\nHost: h" + END,
        b'GET /a"b HTTP/1.1\r\nHost: h' + END,
        b"GET /a<b HTTP/1.1\r\nHost: h" + END,
    ],
    "leading line end": [b"\r\n" + GET + b"\r\n", b"\n" + GET + b"\r\n"],
    "HTTP/2 preface": [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n",
    ],
    "TLS on the plain port": [b"\x16\x03\x01\x02\x00\x01", b"\x80\x2e\x01\x03"],
    "too many headers": [
        GET + b"X: y\r\n" * 64 + b"\r\n",
        GET + b"".join(b"X-%d: y\r\n" % n for n in range(600)) + b"\r\n",
    ],
    "header too long": [
        GET + b"X: " + b"a" * 70000 + END,
        GET + b"X" * 70000 + b": a" + END,
    ],
    "no Host": [b"GET /r HTTP/1.1\r\n\r\n", b"POST /r HTTP/1.1\r\nContent-Length: 0" + END],
    "two Hosts": [
        GET + b"Host: h" + END,
        GET + b"host: other" + END,
    ],
    "Host that is none": [
        b"GET /r HTTP/1.1\r\nHost:" + END,
        b"GET /r HTTP/1.1\r\nHost: a b" + END,
        b"GET /r HTTP/1.1\r\nHost: a, b" + END,
        b"GET /r HTTP/1.1\r\nHost: a/b" + END,
        b"GET /r HTTP/1.1\r\nHost: u@h" + END,
    ],
    "target that is not a path": [
        b"GET http://other/r HTTP/1.1\r\nHost: h" + END,
        b"GET https://h/r HTTP/1.1\r\nHost: h" + END,
        b"OPTIONS * HTTP/1.1\r\nHost: h" + END,
        b"CONNECT h:443 HTTP/1.1\r\nHost: h" + END,
        b"GET r HTTP/1.1\r\nHost: h" + END,
    ],
    "body on a method without one": [
        GET + b"Content-Length: 4" + END,
        GET + b"Content-Length: 0" + END,
        GET + b"Transfer-Encoding: chunked" + END,
        b"HEAD /r HTTP/1.1\r\nHost: h\r\nContent-Length: 4" + END,
        b"DELETE /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked" + END,
    ],
    "method not upper case": [
        b"get /r HTTP/1.1\r\nHost: h" + END,
        b"Post /r HTTP/1.1\r\nHost: h\r\nContent-Length: 0" + END,
        b"G3T /r HTTP/1.1\r\nHost: h" + END,
    ],
    "unknown Expect": [
        POST + b"Expect: 200-ok" + END,
        POST + b"Expect: 100-continue, x" + END,
        POST + b"Expect:" + END,
        POST + b"Expect: 100-continue\r\nExpect: 100-continue" + END,
    ],
    "Upgrade": [
        GET + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x" + END,
        GET + b"Upgrade: websocket" + END,
        GET + b"Connection: upgrade" + END,
        GET + b"HTTP2-Settings: x" + END,
    ],
    "Connection naming headers": [
        GET + b"Connection: close, Host" + END,
        GET + b"Connection: Authorization" + END,
        GET + b"Connection: keep-alive, Transfer-Encoding" + END,
        GET + b"Connection: close\r\nConnection: keep-alive" + END,
        GET + b"Connection:" + END,
    ],
    "announced trailers": [
        POST + b"Transfer-Encoding: chunked\r\nTrailer: X" + END,
        POST + b"trailer: Content-Length\r\nTransfer-Encoding: chunked" + END,
    ],
}
BODIES: dict[str, list[bytes]] = {
    "size with prefix": [b"0x1\r\na\r\n", b"0X1\r\na\r\n"],
    "size with sign": [b"+1\r\na\r\n", b"-1\r\na\r\n", b"-0\r\n\r\n", b"+0\r\n\r\n"],
    "size with blanks": [b"1 \r\na\r\n", b" 1\r\na\r\n", b"1\t\r\na\r\n", b"0 \r\n\r\n"],
    "size with underscore": [b"1_0\r\n", b"_1\r\na\r\n"],
    "no size": [b"\r\n", b"\r\na\r\n", b"g\r\n", b"\n"],
    "size over 64 bits": [
        b"1" + b"0" * 17 + b"\r\n",
        b"f" * 18 + b"\r\n",
        b"0" * 17 + b"1\r\na\r\n",
    ],
    "size over the limit": [b"ffffffffffffffff\r\n", b"1000000000001\r\n"],
    "extension": [
        b"1;x=y\r\na\r\n",
        b"1;\r\na\r\n",
        b"0;x\r\n\r\n",
        b"1 ;x\r\na\r\n",
    ],
    "LF in an extension": [b"1;x\ny\r\na\r\n", b"1;\n\r\na\r\n"],
    "bare LF behind the size": [b"1\na\r\n", b"0\n\r\n", b"1\n"],
    "bare CR behind the size": [b"1\ra\r\n", b"1\r\r\na\r\n"],
    "no CRLF behind the chunk": [b"1\r\naa", b"1\r\na0\r\n\r\n", b"1\r\na\n0\r\n\r\n"],
    "trailers": [
        b"0\r\nX: y\r\n\r\n",
        b"1\r\na\r\n0\r\nContent-Length: 4\r\n\r\n",
        b"0\r\n\n",
        b"0\r\n ",
    ],
}  # fmt: skip


def cases(corpus: dict[str, list[bytes]]) -> list[object]:
    return [
        pytest.param(raw, id=f"{name} {number}")
        for name, spellings in corpus.items()
        for number, raw in enumerate(spellings)
    ]


def test_every_form_has_two_spellings() -> None:
    assert all(len(set(each)) >= 2 for each in [*HEADS.values(), *BODIES.values()])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("raw", cases(HEADS))
def test_ambiguous_head_is_refused(raw: bytes, way: Callable[[bytes], Iterator[bytes]]) -> None:
    refused = refusal_of_head(way(raw))
    assert refused is not None and refused.status in (400, 431)


@pytest.mark.parametrize("raw", cases(HEADS))
def test_ambiguous_head_is_refused_in_the_same_words_however_it_arrives(raw: bytes) -> None:
    words = {str(refusal_of_head(way(raw))) for way in WAYS}
    assert len(words) == 1


@pytest.mark.parametrize("raw", cases(HEADS))
def test_refusal_does_not_wait_for_more(raw: bytes) -> None:
    """No further byte is needed: nobody can keep the connection open with a bad head."""
    assert refusal_of_head(iter([raw])) is not None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("raw", cases(BODIES))
def test_ambiguous_chunk_is_refused(raw: bytes, way: Callable[[bytes], Iterator[bytes]]) -> None:
    head = RequestReader().feed(CHUNKED)
    assert head is not None
    reader = body_reader(head.framing)
    with pytest.raises(Malformed):
        for piece in way(raw):
            reader.feed(piece)
    with pytest.raises(Malformed):
        reader.feed(b"0\r\n\r\n")
    with pytest.raises(Malformed):
        reader.finish()


def refusal_of_head(pieces: Iterator[bytes]) -> Malformed | None:
    reader = RequestReader()
    try:
        for piece in pieces:
            if reader.feed(piece) is not None:
                return None
    except Malformed as refused:
        return refused
    return None
