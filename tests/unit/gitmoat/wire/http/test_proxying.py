"""What is asked of a proxy: one destination, said once."""

from __future__ import annotations

import pytest

from gitmoat.wire.hostname import Destination, HostName
from gitmoat.wire.http.heads import NoBody, RequestHead, ResponseHead
from gitmoat.wire.http.proxying import (
    PlainRequest,
    ProxyReader,
    TunnelRequest,
    classify_direct,
    classify_proxy,
    format_connect,
    format_plain,
    passed_on,
)
from gitmoat.wire.malformed import Malformed

WEB = HostName("web.example")


def head(text: str) -> RequestHead:
    raw = text.strip().replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n"
    found = ProxyReader().feed(raw)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        "CONNECT web.example:443 HTTP/1.1\nHost: web.example:443",
        "CONNECT web.example:443 HTTP/1.1\nHost: web.example",
        "CONNECT WEB.example:443 HTTP/1.1\nHost: web.EXAMPLE:443\nProxy-Connection: Keep-Alive",
        "CONNECT web.example:443 HTTP/1.0",
        "CONNECT web.example:443 HTTP/1.0\nUser-Agent: pip/23",
    ],
)
def test_what_clients_say_to_open_a_tunnel_is_understood(text: str) -> None:
    assert classify_proxy(head(text)) == TunnelRequest(Destination(WEB, 443))


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CONNECT 203.0.113.5:443 HTTP/1.1\nHost: a", 403),
        ("CONNECT [::1]:443 HTTP/1.1\nHost: a", 403),
        ("CONNECT [::ffff:127.0.0.1]:443 HTTP/1.0", 403),
        ("CONNECT 0x7f000001:443 HTTP/1.0", 403),
        ("CONNECT 127.1:443 HTTP/1.0", 403),
        ("CONNECT web.example HTTP/1.0", 403),
        ("CONNECT web.example:0 HTTP/1.0", 403),
        ("CONNECT web.example:65536 HTTP/1.0", 403),
        ("CONNECT web.example:443/ HTTP/1.0", 403),
        ("CONNECT user@web.example:443 HTTP/1.0", 403),
        ("CONNECT web.example:443 HTTP/1.1\nHost: evil.example:443", 400),
        ("CONNECT web.example:443 HTTP/1.1\nHost: web.example:80", 400),
        ("CONNECT web.example:443 HTTP/1.1\nHost: web.example\nHost: web.example", 400),
        ("CONNECT web.example:443 HTTP/1.1\nHost: web.example\nContent-Length: 4", 400),
        ("CONNECT web.example:443 HTTP/1.1\nHost: a\nTransfer-Encoding: chunked", 400),
        ("CONNECT /path HTTP/1.1\nHost: web.example", 403),
        ("GET http://web.example/ HTTP/1.1\nHost: evil.example", 400),
        ("GET http://web.example/ HTTP/1.1\nHost: web.example:8080", 400),
        ("GET http://web.example:8080/ HTTP/1.1\nHost: web.example:80", 400),
        ("GET http://user@web.example/ HTTP/1.1\nHost: web.example", 403),
        ("GET http://203.0.113.5/ HTTP/1.1\nHost: 203.0.113.5", 403),
        ("GET http://[::1]/ HTTP/1.1\nHost: [::1]", 403),
        ("GET https://web.example/ HTTP/1.1\nHost: web.example", 400),
        ("GET ftp://web.example/ HTTP/1.1\nHost: web.example", 400),
        ("GET /path HTTP/1.1\nHost: web.example", 400),
        ("GET http://web.example/ HTTP/1.0\nHost: web.example", 400),
        ("GET http://web.example/#x HTTP/1.1\nHost: web.example", 400),
        ("GET http://web.example/ HTTP/1.1", 400),
        ("GET http://web.example/ HTTP/1.1\nHost: web.example\nConnection: upgrade, host", 400),
        ("GET http://web.example/ HTTP/1.1\nHost: web.example\nConnection: host", 400),
        ("OPTIONS * HTTP/1.1\nHost: web.example", 400),
    ],
)
def test_what_could_mean_two_places_is_refused(text: str, status: int) -> None:
    with pytest.raises(Malformed) as refused:
        classify_proxy(head(text))
    assert refused.value.status == status


def plain(text: str) -> PlainRequest:
    request = classify_proxy(head(text))
    assert isinstance(request, PlainRequest)
    return request


def test_a_plain_request_is_written_anew_without_what_is_between_neighbours() -> None:
    asked = head(
        "GET http://web.example:80/a/b?c=d HTTP/1.1\nHost: web.example\nAccept: */*\n"
        "Proxy-Connection: keep-alive\nConnection: keep-alive\nProxy-Authorization: Basic eA==\n"
        "TE: trailers\nUpgrade: h2c\nHTTP2-Settings: x\nKeep-Alive: 5\n"
        "Gitmoat-Tier: helper\nRange: bytes=0-9"
    )
    request = classify_proxy(asked)
    assert isinstance(request, PlainRequest)
    assert format_plain(request, asked, (), absolute=False) == (
        b"GET /a/b?c=d HTTP/1.1\r\nHost: web.example\r\naccept: */*\r\nrange: bytes=0-9\r\n\r\n"
    )
    far = format_plain(request, asked, ((b"Gitmoat-Request-Id", b"1"),), absolute=True)
    again = ProxyReader().feed(far)
    assert again is not None
    assert classify_proxy(again) == request


# pip 26, apt 2.6 and npm 11 as they were recorded; curl, wget, go and cargo by their sources.
CLIENTS = {
    "pip": "User-Agent: pip/26.3\nAccept-Encoding: gzip, deflate\nAccept: text/html; q=0.01\n"
    "Cache-Control: max-age=0\nIf-None-Match: x\nAuthorization: Basic eA==",
    "apt": "Cache-Control: max-age=0\nAccept: text/*\nUser-Agent: Debian APT-HTTP/1.3 (2.6.1)\n"
    "Range: bytes=5-\nIf-Range: x\nIf-Modified-Since: x",
    "npm": "user-agent: npm/11.19.1\npacote-version: 21.5.1\npacote-req-type: packument\n"
    "pacote-pkg-id: registry:x\npacote-integrity: sha512-x\naccept: application/json\n"
    "npm-auth-type: web\nnpm-command: view\nnpm-session: x\nreferer: x\n"
    "Accept-Encoding: gzip,deflate",
    "curl": "User-Agent: curl/7.88.1\nAccept: */*\nContent-Type: text/plain\nCookie: a=b\n"
    "Range: bytes=5-\nReferer: x",
    "wget": "User-Agent: Wget/1.21.3\nAccept: */*\nAccept-Encoding: identity\nRange: bytes=5-",
    "go": "User-Agent: Go-http-client/1.1\nAccept-Encoding: gzip\nDisable-Module-Fetch: true",
    "cargo": "User-Agent: cargo 1.95\nAccept: */*\nAccept-Encoding: gzip\n"
    "cargo-protocol: version=1\nIf-None-Match: x",
}
OVERRIDES = [
    "X-HTTP-Method-Override: DELETE",
    "X-HTTP-Method: DELETE",
    "X-Method-Override: DELETE",
    "X_HTTP_METHOD_OVERRIDE: DELETE",
    "X-Original-Method: DELETE",
    "X-Original-URL: /other",
    "X-Rewrite-URL: /other",
    "X-Forwarded-Host: other.example",
    "X-Host: other.example",
    "Forwarded: host=other.example",
    "X-Anything: at all",
]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_package_managers_send_passes(client: str) -> None:
    lines = CLIENTS[client]
    request = plain(f"GET http://web.example/ HTTP/1.1\nHost: web.example\n{lines}")
    names = [line.partition(":")[0].lower().encode() for line in lines.split("\n")]
    assert [name for name, _ in request.headers] == names


@pytest.mark.parametrize("line", OVERRIDES)
def test_a_header_that_could_stand_for_another_method_path_or_host_is_dropped(line: str) -> None:
    text = f"HTTP/1.1\nHost: web.example\n{line}\nAccept: */*"
    for request in (
        plain(f"GET http://web.example/ {text}"),
        classify_direct(head(f"GET / {text}"), WEB),
    ):
        assert request.headers == ((b"accept", b"*/*"),)


def test_no_path_is_the_root_and_another_port_is_in_the_host() -> None:
    asked = head("GET http://web.example:8080 HTTP/1.1\nHost: web.example:8080")
    request = classify_proxy(asked)
    assert isinstance(request, PlainRequest)
    written = format_plain(request, asked, (), absolute=False)
    assert written == b"GET / HTTP/1.1\r\nHost: web.example:8080\r\n\r\n"


@pytest.mark.parametrize(
    "where",
    [
        "Accept: application/dns-message",
        "Accept: APPLICATION/DNS-JSON",
        "Accept: text/html, application/dns-udpwireformat;q=0.1",
        "Content-Type: application/oblivious-dns-message",
    ],
)
def test_dns_over_http_is_seen(where: str) -> None:
    assert plain(f"GET http://web.example/ HTTP/1.1\nHost: web.example\n{where}").asks_for_dns
    assert not plain("GET http://web.example/ HTTP/1.1\nHost: web.example").asks_for_dns


def test_at_a_synthetic_address_the_host_is_the_one_the_address_stands_for() -> None:
    to = Destination(WEB, 80)
    assert classify_direct(head("GET /x HTTP/1.1\nHost: Web.Example"), WEB).to == to
    assert classify_direct(head("GET /x HTTP/1.1\nHost: web.example:80"), WEB).to == to
    for wrong in ("evil.example", "web.example:8080", "203.0.113.5"):
        with pytest.raises(Malformed):
            classify_direct(head(f"GET /x HTTP/1.1\nHost: {wrong}"), WEB)
    with pytest.raises(Malformed):
        classify_direct(head("GET http://web.example/ HTTP/1.1\nHost: web.example"), WEB)


def answer(*headers: tuple[bytes, bytes]) -> ResponseHead:
    return ResponseHead(200, headers, NoBody(), False)


def test_an_answer_loses_what_is_between_neighbours_and_what_is_ours_to_say() -> None:
    given = answer(
        (b"content-type", b"text/plain"), (b"content-length", b"5"), (b"connection", b"close"),
        (b"gitmoat-code", b"E101"), (b"set-cookie", b"a=b"), (b"set-cookie", b"c=d"),
        (b"alt-svc", b'h3=":443"'), (b"proxy-authenticate", b"Basic"),
    )  # fmt: skip
    shown = ((b"content-type", b"text/plain"), (b"set-cookie", b"a=b"), (b"set-cookie", b"c=d"))
    assert passed_on(given, to_head=False) == shown
    assert passed_on(given, to_head=True) == (*shown, (b"content-length", b"5"))


def test_an_answer_of_dns_over_http_is_refused() -> None:
    with pytest.raises(Malformed, match="DNS"):
        passed_on(answer((b"content-type", b"application/dns-message")), to_head=False)


def test_our_own_connect_is_read_as_it_is_written() -> None:
    to = Destination(WEB, 8443)
    found = ProxyReader().feed(format_connect(to, ()))
    assert found is not None
    assert classify_proxy(found) == TunnelRequest(to)


def test_what_connection_names_ends_here_but_hides_no_dns() -> None:
    """Of an answer: a request that names a header there is refused whole."""
    with pytest.raises(Malformed, match="Connection"):
        head("GET http://web.example/ HTTP/1.1\nHost: web.example\nConnection: x-a\nX-A: 1")
    hidden = [(b"connection", b"Content-Type"), (b"content-type", b"application/dns-message")]
    with pytest.raises(Malformed, match="DNS"):
        passed_on(answer(*hidden), to_head=False)
    kept = passed_on(answer((b"connection", b"x-a"), (b"x-a", b"1"), (b"x-c", b"3")), to_head=False)
    assert kept == ((b"x-c", b"3"),)
