"""HTTP/1.1 heads written from values that were checked."""

import re
from collections.abc import Iterable
from typing import Final

# The same as the readers take, so that what we send is what our next hop accepts.
_ORIGIN = rb"/[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]*"
_HOST = rb"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])"
_REQUEST_LINE = re.compile(
    rb"(?:[A-Z]{1,20} (?:http://%b(?::[0-9]+)?)?%b|CONNECT %b:[0-9]+) HTTP/1\.1"
    % (_HOST, _ORIGIN, _HOST)
)
_PHRASE = re.compile(rb"[ -~]{1,120}")
# No blank at either end of a value and no empty one: RFC 9112, 5.1 has recipients strip blanks.
_LINES = re.compile(rb"(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+: (?![\t ])[\t -~]+(?<![\t ]))*\r\n\r\n")
_COLON: Final = ord(":")

_REASONS: Final = {
    100: b"Continue",
    200: b"OK",
    204: b"No Content",
    304: b"Not Modified",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    417: b"Expectation Failed",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}


def format_request(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    start = method + b" " + target + b" HTTP/1.1"
    if _REQUEST_LINE.fullmatch(start) is None:
        raise ValueError("not a request line we may send")
    return _format(start, headers)


def format_response(
    status: int, headers: Iterable[tuple[bytes, bytes]], reason: bytes | None = None
) -> bytes:
    phrase = _REASONS.get(status, b"Status") if reason is None else reason
    if reason is not None and _PHRASE.fullmatch(reason) is None:
        raise ValueError("not a reason we may give")
    return _format(b"HTTP/1.1 %d %s" % (status, phrase), headers)


def _format(start: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [start]
    for name, value in headers:
        # The first colon must be ours: then name and value are what the two halves match.
        if _COLON in name:
            raise ValueError("not a header we may send")
        lines.append(b"%b: %b" % (name, value))
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    # No line has another one inside.
    if _LINES.fullmatch(head, len(start)) is None or head.count(b"\n") != len(lines) + 1:
        raise ValueError("not a header we may send")
    return head
