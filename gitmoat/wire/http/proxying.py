"""What a client asks of a proxy: a tunnel, or one plain HTTP request. Read strictly, written anew.

The destination is said once: a Host that differs from the target is refused, not preferred.
"""

import re
from typing import Final

from attrs import field, frozen

from gitmoat.wire.hostname import Destination, HostName, parse_destination, parse_host
from gitmoat.wire.http.formatting import format_request
from gitmoat.wire.http.framing import Headers, framing_headers
from gitmoat.wire.http.heads import Fields, RequestHead, RequestReader, ResponseHead, check_host
from gitmoat.wire.malformed import Malformed

HTTP_PORT: Final = 80

# Wide on purpose: what is not a name is refused with a reason, not as a malformed line.
_CONNECT_LINE = re.compile(rb"CONNECT ([!-~]{1,300}) HTTP/1\.[01]")
_ABSOLUTE_LINE = re.compile(
    rb"([A-Z]{1,20}) (http://[A-Za-z0-9._\-:\[\]@%]{1,300}"
    rb"(?:/[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]*)?) HTTP/1\.1"
)
_ABSOLUTE = re.compile(rb"http://([^/]+)(/.*)?")
# Between two neighbours only, or said by us: never passed on (RFC 9110, 7.6.1).
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade",
        b"proxy-authorization", b"proxy-authenticate", b"proxy-status", b"transfer-encoding",
        b"content-length", b"expect", b"host", b"http2-settings", b"alt-svc",
    }
)  # fmt: skip
# What a request may carry besides: RFC 9110, 9111 and 6265, and what package managers say of
# themselves. Servers heed others in place of what was decided: X-HTTP-Method-Override,
# X-Original-URL, X-Forwarded-Host, with `_` for `-` too.
_REQUEST: Final = frozenset(
    {
        b"accept", b"accept-charset", b"accept-encoding", b"accept-language", b"authorization",
        b"cache-control", b"cache-store", b"cargo-protocol", b"content-disposition",
        b"content-encoding", b"content-language", b"content-location", b"content-md5",
        b"content-range", b"content-type", b"cookie", b"date", b"disable-module-fetch",
        b"expires", b"from", b"if-match", b"if-modified-since", b"if-none-match", b"if-range",
        b"if-unmodified-since", b"origin", b"pragma", b"range", b"referer", b"user-agent",
    }
)  # fmt: skip
_PACKAGE_MANAGERS: Final = (b"npm-", b"pacote-")
_OURS: Final = b"gitmoat-"
_LOOKED_AT: Final = frozenset({b"accept", b"content-type"})
# RFC 8484 and 9230, their drafts, and the JSON of several public resolvers.
_DNS_TYPES: Final = (
    b"application/dns-message", b"application/dns-udpwireformat", b"application/dns-json",
    b"application/dns+json", b"application/x-dns-json", b"application/oblivious-dns-message",
)  # fmt: skip


@frozen
class TunnelRequest:
    to: Destination


@frozen
class PlainRequest:
    """One HTTP request to be sent to `to`; `target` is a path and a query."""

    to: Destination
    method: bytes
    target: bytes
    headers: Headers = field(repr=False)

    @property
    def asks_for_dns(self) -> bool:
        """DNS over HTTPS would ask a resolver that nobody chose."""
        return any(name in _LOOKED_AT and _is_dns(value) for name, value in self.headers)


class ProxyReader(RequestReader):
    """Reads a head whose target may also be `host:port` of a CONNECT, or an absolute URL."""

    _connects = False

    def _start(self, line: bytes) -> None:
        connect = _CONNECT_LINE.fullmatch(line)
        absolute = _ABSOLUTE_LINE.fullmatch(line)
        if connect is not None:
            # HTTP/1.0 is what many clients still say here, without a Host.
            self._method, self._target, self._connects = b"CONNECT", connect[1], True
        elif absolute is not None:
            self._method, self._target = absolute.groups()
        else:
            super()._start(line)

    def _check_host(self, fields: Fields) -> None:
        if not self._connects or b"host" in fields:
            check_host(fields)


def classify_proxy(head: RequestHead) -> TunnelRequest | PlainRequest:
    """What was asked of a proxy; Malformed for a request that is meant for a server."""
    if head.method == b"CONNECT":
        to = parse_destination(head.target)
        _check_same(head, to)
        return TunnelRequest(to)
    absolute = _ABSOLUTE.fullmatch(head.target)
    if absolute is None:
        raise Malformed("this is a proxy: the target must be a whole URL")
    to = _place(absolute[1])
    _check_same(head, to)
    return _plain(head, to, absolute[2] or b"/")


def classify_direct(head: RequestHead, name: HostName) -> PlainRequest:
    """What was asked of a server that is known by the address it was asked at."""
    if not head.target.startswith(b"/"):
        raise Malformed("the target must be a path")
    to = Destination(name, HTTP_PORT)
    _check_same(head, to)
    return _plain(head, to, head.target)


def format_plain(request: PlainRequest, head: RequestHead, extra: Headers, absolute: bool) -> bytes:
    """The request in our own spelling, with the body's framing of `head`."""
    port = b"" if request.to.port == HTTP_PORT else b":%d" % request.to.port
    place = request.to.host.text.encode() + port
    target = b"http://" + place + request.target if absolute else request.target
    headers = [(b"Host", place), *extra, *request.headers, *framing_headers(head.framing)]
    try:
        return format_request(request.method, target, headers)
    except ValueError:
        raise Malformed("a header is not ASCII") from None


def format_connect(to: Destination, extra: Headers) -> bytes:
    target = to.text.encode()
    return format_request(b"CONNECT", target, [(b"Host", target), *extra])


class AnswersDns(Malformed):
    """An answer that no client may see, however it was asked for."""


def passed_on(head: ResponseHead, to_head: bool) -> Headers:
    """The headers of an answer that a client may see; AnswersDns where it may see none."""
    headers = _end_to_end(head.headers)
    if any(name == b"content-type" and _is_dns(value) for name, value in headers):
        raise AnswersDns("the answer is DNS over HTTPS")
    length = head.header(b"content-length")
    if to_head and length is not None:
        headers = (*headers, (b"content-length", length))
    return tuple((name, value) for name, value in headers if value and value.isascii())


def _plain(head: RequestHead, to: Destination, target: bytes) -> PlainRequest:
    if head.method == b"CONNECT":
        raise Malformed("CONNECT takes a host and a port")
    headers = _end_to_end(head.headers)
    known = [(name, value) for name, value in headers if _may_be_asked(name)]
    return PlainRequest(to, head.method, target, tuple(known))


def _may_be_asked(name: bytes) -> bool:
    return name in _REQUEST or name.startswith(_PACKAGE_MANAGERS)


def _end_to_end(headers: Headers) -> Headers:
    """Neither those of one hop, nor those that Connection says are (RFC 9110, 7.6.1); but what
    is looked at for DNS is not hidden by that."""
    lists = [value.lower() for name, value in headers if name == b"connection"]
    said = {each.strip() for value in lists for each in value.split(b",")}
    hop = _HOP_BY_HOP | (said - _LOOKED_AT)
    return tuple(
        (name, value)
        for name, value in headers
        if name not in hop and not name.startswith(_OURS) and value
    )


def _check_same(head: RequestHead, to: Destination) -> None:
    host = head.header(b"host")
    if host is None:
        return
    said = _place(host, to.port)
    if said != to:
        raise Malformed("Host is not where the request goes")


def _place(raw: bytes, port: int = HTTP_PORT) -> Destination:
    return parse_destination(raw) if b":" in raw else Destination(parse_host(raw), port)


def _is_dns(value: bytes) -> bool:
    lower = value.lower()
    return any(kind in lower for kind in _DNS_TYPES)
