"""Strict HTTP/1.1 heads (RFC 9112): read into values, or refused.

What is not fully understood is refused, never repaired: where two hops read one message
differently, a request can be smuggled past the first (RFC 9112, 11.2). RFC numbers below are the
rule; what is said beside them is where we allow less.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from attrs import field, frozen

from gitmoat.wire.http.bodies import LAST_CHUNK, BodyReader, Piece, body_reader, chunk
from gitmoat.wire.http.formatting import format_request, format_response
from gitmoat.wire.http.framing import (
    Chunked,
    Framing,
    Headers,
    Length,
    NoBody,
    UntilClose,
    framing_headers,
    parse_length,
)
from gitmoat.wire.malformed import Malformed

__all__ = [
    "BodyReader",
    "Chunked",
    "Framing",
    "Headers",
    "LAST_CHUNK",
    "Length",
    "NoBody",
    "Piece",
    "REQUEST_HEAD_LIMIT",
    "RequestHead",
    "RequestReader",
    "ResponseHead",
    "ResponseReader",
    "UntilClose",
    "body_reader",
    "chunk",
    "format_request",
    "format_response",
    "framing_headers",
]

REQUEST_HEAD_LIMIT: Final = 16 * 1024
RESPONSE_HEAD_LIMIT: Final = 64 * 1024
MAX_REQUEST_HEADERS: Final = 64
MAX_RESPONSE_HEADERS: Final = 128
MAX_INTERIM: Final = 4
_CR: Final = 0x0D

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
# RFC 9110, 9.1: methods are case-sensitive; every registered one is of upper-case letters and
# hyphens, those we serve of letters. RFC 9112, 3.2: of the four forms of a target origin-form only
# (`proxying` reads two others), of the characters RFC 3986 has in a path (3.3) and a query (3.4).
# RFC 9112, 3 lets a recipient split at other whitespace; here it is one space.
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]*) HTTP/1\.1")
# RFC 9112, 4: the space behind the status is mandatory; some servers leave it out with the phrase.
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [\t -~\x80-\xff]*)?")
# One after the other, and in place of a name all the rest from where a line is no header. RFC 9112,
# 5.1: no blank before the colon; 5.2: no folded line, which a recipient might join instead;
# RFC 9110, 5.5: no CR, LF or NUL in a value, and here no other control byte but HTAB either.
_HEADER_LINES = re.compile(rb"(%b{1,64}):([\t -~\x80-\xff]*)\r\n|(?s:.+)" % _TOKEN)
_HOST = re.compile(rb"[A-Za-z0-9.\-_:\[\]]{1,255}")

# RFC 9110, 9.3.1 gives a body under these no meaning and warns of smuggling: servers that ignore it
# read it as the next request. Git and package managers send none.
_BODILESS: Final = frozenset({b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT"})
# RFC 9110, 7.8 lets a server ignore Upgrade, and curl offers h2c with every request once HTTP/2 is
# preferred (HTTP2-Settings: RFC 7540, 3.2.1). Both fields end here: a hop that passed them on could
# be answered 101, and no request behind that would be read by us.
_UPGRADE: Final = frozenset({b"upgrade", b"http2-settings"})
# RFC 9110, 6.6.2: it announces fields behind the body, which we do not read.
_UNSERVED: Final = b"trailer"
_FRAMING: Final = (b"content-length", b"transfer-encoding")
# A field that is no list must not come twice (RFC 9110, 5.3); hops differ in which they believe.
_ONCE: Final = (b"host", *_FRAMING, b"expect", b"connection")

Fields = Mapping[bytes, bytes]


@frozen
class RequestHead:
    """Header names are lower case, values without surrounding blanks, in the order they came."""

    method: bytes
    target: bytes
    headers: Headers = field(repr=False)  # Authorization is one of them
    framing: NoBody | Length | Chunked
    expect_continue: bool
    close: bool

    def header(self, name: bytes) -> bytes | None:
        return _only(self.headers, name)


@frozen
class ResponseHead:
    status: int
    headers: Headers = field(repr=False)
    framing: Framing
    close: bool

    def header(self, name: bytes) -> bytes | None:
        return _only(self.headers, name)


Head = TypeVar("Head", RequestHead, ResponseHead)


class _HeadReader(ABC, Generic[Head]):
    """Reads every line as soon as it is complete, so a bad one is refused before the head ends."""

    _first: frozenset[int]

    def __init__(self, limit: int, max_headers: int) -> None:
        self._limit = limit
        self._max_headers = max_headers
        self._buffer = bytearray()
        self._line_at = 0
        self._search_at = 0
        self._in_headers = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._failure: Malformed | None = None
        self._done = False
        self.leftover = b""

    def feed(self, data: bytes) -> Head | None:
        """Return the head once it is whole; after an error every call raises it again."""
        if self._failure is not None:
            raise self._failure
        if self._done:
            raise RuntimeError("the head was read already")
        try:
            return self._take(data)
        except Malformed as failure:
            self._failure = failure.alone()
            raise

    @abstractmethod
    def _start(self, line: bytes) -> None:
        """Check and keep the first line."""

    @abstractmethod
    def _whole(self, headers: Headers) -> Head | None:
        """Make the head, or None to read another one."""

    def _take(self, data: bytes) -> Head | None:
        buffer = self._buffer
        room = self._limit - len(buffer)
        buffer += data[:room]
        if buffer and buffer[0] not in self._first:
            raise Malformed("not HTTP/1.1")
        end = buffer.rfind(b"\n", self._search_at) + 1
        self._search_at = len(buffer)
        while self._line_at < end:
            if not self._in_headers:
                self._first_line()
            elif self._header_lines(end):
                head = self._whole(tuple(self._headers))
                self._headers, self._in_headers = [], False
                if head is not None:
                    self.leftover = bytes(buffer[self._line_at :]) + data[room:]
                    self._done = True
                    return head
        if len(buffer) >= self._limit:
            raise Malformed("head is too large", 431)
        return None

    def _first_line(self) -> None:
        start, end = self._line_at, self._buffer.index(b"\n", self._line_at)
        # RFC 9112, 2.2 lets a recipient take a bare LF for a line's end. Hops that differ in
        # that see different heads, so here as below only CRLF is one.
        if self._buffer[end - 1] != _CR:
            raise Malformed("line does not end with CRLF")
        self._start(bytes(self._buffer[start : end - 1]))
        self._line_at, self._in_headers = end + 1, True

    def _header_lines(self, end: int) -> bool:
        """Read the complete lines, which end at `end`; whether the empty one is among them."""
        # The line before has ended with CRLF.
        last = self._buffer.find(b"\n\r\n", self._line_at - 1, end) + 1
        found = _HEADER_LINES.findall(self._buffer, self._line_at, last or end)
        self._headers += [(name.lower(), value.strip(b" \t")) for name, value in found if name]
        if len(self._headers) > self._max_headers:
            raise Malformed("too many headers", 431)
        if found and not found[-1][0]:
            raise Malformed("header line is malformed")
        self._line_at = last + 2 if last else end
        return last > 0


class RequestReader(_HeadReader[RequestHead]):
    """Reads one request head; single use."""

    _first = frozenset(range(ord("A"), ord("Z") + 1))

    def __init__(self, limit: int = REQUEST_HEAD_LIMIT) -> None:
        super().__init__(limit, MAX_REQUEST_HEADERS)
        self._method = self._target = b""

    def _start(self, line: bytes) -> None:
        found = _REQUEST_LINE.fullmatch(line)
        if found is None:
            raise Malformed("request line is malformed")
        self._method, self._target = found.groups()

    def _check_host(self, fields: Fields) -> None:
        check_host(fields)

    def _whole(self, headers: Headers) -> RequestHead:
        fields = _fields(headers, _ONCE)
        self._check_host(fields)
        if _UNSERVED in fields:
            raise Malformed("request has a trailer")
        if not _UPGRADE.isdisjoint(fields):
            headers = tuple(each for each in headers if each[0] not in _UPGRADE)
        return RequestHead(
            self._method,
            self._target,
            headers,
            _request_framing(self._method, fields),
            _expects_continue(fields),
            _request_closes(fields),
        )


class ResponseReader(_HeadReader[ResponseHead]):
    """Reads one response head and skips a few interim (1xx) ones before it; single use."""

    _first = frozenset(b"H")

    def __init__(self, limit: int = RESPONSE_HEAD_LIMIT, to_head: bool = False) -> None:
        super().__init__(limit, MAX_RESPONSE_HEADERS)
        self._to_head = to_head
        self._status = 0
        self._interim = 0

    def _start(self, line: bytes) -> None:
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise Malformed("status line is malformed")
        self._status = int(found[1])

    def _whole(self, headers: Headers) -> ResponseHead | None:
        fields = _fields(headers, _FRAMING)
        framing = _response_framing(self._status, fields, self._to_head)
        if self._status < 200:
            self._skip_interim()
            return None
        closes = b"connection" in fields and _response_closes(headers)
        close = closes or isinstance(framing, UntilClose)
        return ResponseHead(self._status, headers, framing, close)

    def _skip_interim(self) -> None:
        """RFC 9110, 15.2: a client must be able to read some; a server could send them for ever."""
        self._interim += 1
        if self._status == 101:
            # RFC 9110, 15.2.2: an answer to Upgrade, which we never send.
            raise Malformed("nobody asked to switch protocols")
        if self._interim > MAX_INTERIM:
            raise Malformed("too many interim responses")


def _only(headers: Headers, name: bytes) -> bytes | None:
    found = None
    for each, value in headers:
        if each == name:
            if found is not None:
                raise Malformed("header is repeated")
            found = value
    return found


def _fields(headers: Headers, once: tuple[bytes, ...]) -> Fields:
    """By name; those of `once` that are repeated are refused, of others the last one counts."""
    fields = dict(headers)
    if len(fields) < len(headers):
        for name in once:
            _only(headers, name)
    return fields


def check_host(fields: Fields) -> None:
    # RFC 9112, 3.2: without one Host the answer is 400. Only characters are checked here.
    host = fields.get(b"host")
    if host is None or _HOST.fullmatch(host) is None:
        raise Malformed("request needs one valid Host")


def _request_framing(method: bytes, fields: Fields) -> NoBody | Length | Chunked:
    framing = _declared_framing(fields)
    if method in _BODILESS and not isinstance(framing, NoBody):
        raise Malformed("this method has no body")
    return framing


def _declared_framing(fields: Fields) -> NoBody | Length | Chunked:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None:
        # RFC 9112, 6.1 lets a server process the two together, with Transfer-Encoding; 6.3 says
        # that they might be an attempt at smuggling.
        if length is not None:
            raise Malformed("Content-Length and Transfer-Encoding exclude each other")
        # One spelling: RFC 9112, 6.1 would allow a list before it, and RFC 9112, 7 any case.
        if coding != b"chunked":
            raise Malformed("Transfer-Encoding is not exactly chunked")
        return Chunked()
    return NoBody() if length is None else parse_length(length)


def _expects_continue(fields: Fields) -> bool:
    # RFC 9110, 10.1.1: an expectation that is not understood may be refused; the only one is this.
    expectation = fields.get(b"expect")
    if expectation is not None and expectation.lower() != b"100-continue":
        raise Malformed("unknown expectation")
    return expectation is not None


def _request_closes(fields: Fields) -> bool:
    connection = fields.get(b"connection")
    if connection is None:
        return False
    options = [each.strip(b" \t") for each in connection.lower().split(b",")]
    # RFC 9110, 7.6.1: a list may name any header as hop-by-hop, so that a hop that obeys it passes
    # on another request than was decided. One of the two options only, beside what is ignored.
    left = [each for each in options if each not in _UPGRADE]
    if left not in ([], [b"keep-alive"], [b"close"]):
        raise Malformed("Connection is neither keep-alive nor close")
    return left == [b"close"]


def _response_framing(status: int, fields: Fields, to_head: bool) -> Framing:
    declared = _declared_framing(fields)
    bodiless = status < 200 or status in (204, 304)
    # RFC 9112, 6.3: 1xx, 204 and 304 end with their head. RFC 9110, 8.6 forbids Content-Length with
    # 1xx and 204, where servers send a 0 all the same; a 304 may have that of the body not sent.
    if (bodiless and isinstance(declared, Chunked)) or (status < 200 and declared != NoBody()):
        raise Malformed("this status has no body")
    if bodiless or to_head:
        return NoBody()
    return UntilClose() if isinstance(declared, NoBody) else declared


def _response_closes(headers: Headers) -> bool:
    """Servers put other words beside it; none of them changes the framing."""
    values = [value for name, value in headers if name == b"connection"]
    return any(word.strip(b" \t").lower() == b"close" for word in b",".join(values).split(b","))
