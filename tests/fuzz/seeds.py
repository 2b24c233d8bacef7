"""A few inputs of each kind to start from: what is right, and what is nearly so."""

from __future__ import annotations

import gzip

from gitmoat.identity.grant import Grant, encode_grant
from hostctl.copy.tarstream import END, Entry, Kind, format_entry, padding
from hostd.verify.attempts.network import client_hello
from netpolicy.format.document import parse_policy
from netpolicy.format.writing import policy_to_mapping
from tests.fakes.vectors import Spelling, refused

_POLICY = """
version = 1
name = "p"
[session]
ttl = "8h"
[limits]
push_max = "1MiB"
[[git]]
id = "a"
repos = ["up:acme/app", "up:acme/web-*"]
fetch = true
push = { branches = ["agent/**"], tags = ["v*"], refs = ["refs/notes/**"], options = true }
who = ["helper", "untrusted"]
[[git]]
effect = "deny"
repos = ["up:acme/*-secret"]
[[egress]]
hosts = ["*.example.org"]
[[test]]
expect = "deny"
push = "up:acme/app refs/heads/main"
"""


def _pkts(*payloads: bytes) -> bytes:
    return b"".join(b"%04x%b" % (len(each) + 4, each) for each in payloads) + b"0000"


def _grant() -> bytes:
    grant = Grant(
        host="one",
        boot_id="b",
        counter=1,
        session="s",
        key=bytes(32),
        sandbox="sb",
        name="n",
        runtime="bwrap",
        container=None,
        netns=1,
        epoch=1,
        scope=policy_to_mapping(parse_policy(_POLICY)),
        ttl=60,
        issued=1,
        audience="a",
    )
    return encode_grant(grant)


def _requests() -> list[bytes]:
    spelling = Spelling("/git/up/", envelope="Git-Protocol: version=2\r\n")
    allowed = ["<GET>\r\n", "<POST>Content-Length: 4<END>0000", "<PUSH>Expect: 100-continue<END>"]
    spellings = [*allowed, *(each.raw for each in refused() if len(each.raw) < 300)]
    return [spelling.bytes_of(each) for each in spellings if "GZIP" not in each]


_ZERO, _ONE = b"0" * 40, b"1" * 40
_WANTED = b" report-status side-band-64k push-options agent=git/2"
_LINE = _ZERO + b" " + _ONE + b" refs/heads/a\0" + _WANTED
_PACK = b"PACK\0\0\0\2"
_CERTIFICATE = (
    b"push-cert\0 report-status",
    b"certificate version 0.1\n",
    b"nonce 1\n",
    b"\n",
    _ZERO + b" " + _ONE + b" refs/heads/a\n",
    b"-----BEGIN PGP SIGNATURE-----\n",
    b"push-cert-end\n",
)


_GITHUB = (
    b"HTTP/1.1 201 Created\r\nDate: Mon, 16 Nov 2026 11:00:00 GMT\r\nContent-Length: 1\r\n\r\n"
    b'{"token":"ghs_x","expires_at":"%b","permissions":{"contents":"read","metadata":"read"},'
    b'"repositories":[{"full_name":"acme/app"}]}'
)


def _tars() -> list[bytes]:
    entries = [
        Entry(b"d", Kind.DIRECTORY, 0o755),
        Entry(b"d/" + b"n" * 120, Kind.FILE, size=3),
        Entry(b"l", Kind.LINK, target=b"../" * 40),
    ]
    contents = (b"", b"abc" + padding(3), b"")
    whole = b"".join(format_entry(e) + c for e, c in zip(entries, contents, strict=True))
    return [whole + END, format_entry(Entry(b"f", Kind.FILE, size=8**11)), END]


def seeds() -> dict[str, list[bytes]]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    return {
        "request_head": _requests(),
        "response_head": [
            head + b"Content-Length: 4\r\n\r\n0000",
            b"HTTP/1.1 103 X\r\nLink: x\r\n\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n",
            head + b"Connection: close\r\n\r\n",
        ],
        "chunked_body": [b"4\r\n0000\r\n0\r\n\r\nrest", b"a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n"],
        "pkt_line": [_pkts(b"a\n", b"") + b"00010002", b"0009done\n0000"],
        "push_commands": [
            _pkts(_LINE, _ZERO + b" " + _ONE + b" refs/tags/v1") + _pkts(b"ci.skip") + _PACK,
            _pkts(b"shallow " + _ONE, _LINE.replace(b" push-options", b"")) + _PACK,
            _pkts(_LINE.replace(b" push-options", b"")) + _pkts(_LINE) + _PACK,
            _pkts(_ONE + b" " + _ZERO + b" refs/heads/a\0 delete-refs"),
            _pkts(*_CERTIFICATE),
            b"0000",
        ],
        "credential_request": [
            b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=h/acme/app.git\n",
            b"action=store\nprotocol=http\nhost=a\npath=b\nusername=u\nwwwauth[]=x\n\n",
        ],
        "policy_document": [_POLICY.encode(), b'version = 1\nname = "x"\n'],
        "grant": [_grant()],
        "repository_path": [b"acme/app.git", b"a/b/c/", b"git.example.org:8443", b"up"],
        "ref_name": [b"refs/heads/agent/x", "refs/tags/v1.0-ä".encode(), b"refs/for/main%t=x"],
        "gzip_body": [gzip.compress(b"0011command=fetch0000"), gzip.compress(b"") * 2],
        "upstream_answer": [
            b"f" + _pkts(b"packfile\n", b"\x02done\x1b[0m\n", b"\x01PACK", b"\x03no\x07"),
            b"r" + _pkts(b"\x01" + _pkts(b"unpack ok\n", b"ng refs/heads/a \x1b[31mno\n")),
            b"f0008NAK\nPACK\0\0\0\2",
        ],
        "client_hello": [client_hello("mirror.example.org"), client_hello("x.example")[:40]],
        "dns_query": [
            b"\x12\x34\1\0\0\1\0\0\0\0\0\0\6mirror\7example\3org\0\0\1\0\1",
            b"\0\1\1\0\0\1\0\0\0\0\0\1\1x\0\0\x1c\0\1\0\0\x29\4\xd0\0\0\0\0\0\0",
        ],
        "proxy_request": [
            b"CONNECT mirror.example.org:443 HTTP/1.1\r\nHost: mirror.example.org:443\r\n\r\n",
            b"GET http://mirror.example.org/x HTTP/1.1\r\nHost: mirror.example.org\r\n\r\n",
        ],
        "proxy_answer": [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 407 No\r\nVia: x\r\n\r\nno"],
        "sidecar_report": [
            b'{"event":"git-refused","uid":5,"repo":"up:acme/app","code":"G101","count":3}',
            b'{"event":"egress-refused","op":"dns","to":"x.example","code":"E101"}',
            b'{"event":"credential-granted","repo":"up:a/b","req":"0123456789abcdef"}',
        ],
        "github_answer": [
            _GITHUB % b"2026-11-16T12:00:00Z",
            _GITHUB % b"0001-01-01T00:00:00+23:59",
            b"HTTP/1.1 401 No\r\nDate: Mon, 16 Nov 2026 12:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 401 No\r\nDate: x\r\nDate: y\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 403 No\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 1700000099\r\n"
            b"Content-Length: 0\r\n\r\n",
            b"HTTP/1.1 401 No\r\nDate: Mon, 01 Jan 0001 00:00:00 -0000\r\n"
            b"Content-Length: 0\r\n\r\n",
        ],
        "helper_answer": [
            b"protocol=https\nhost=hub.example\nusername=u\npassword=p\npassword_expiry_utc=9\n",
            b"quit=1\n",
        ],
        "credential_answer": [b"username=gitmoat\npassword=abc\n", b"quit=1\n"],
        "direct_request": [
            b"GET /x?y HTTP/1.1\r\nHost: web.example\r\nAccept: */*\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: web.example:80\r\nTransfer-Encoding: chunked\r\n\r\n",
        ],
        "workspace_answer": [
            _ONE + b" refs/remotes/origin/main\n" + _ONE + b" refs/tags/v1\n",
            b"refs/heads/agent/x\n",
            _ONE + b"\nx missing\n" + b"ab" * 32 + b"\n",
        ],
        "tar_stream": _tars(),
        "report_of_a_probe": [b'[false, "EPERM"]\n[true, "connected"]\n', b'[false, "EP'],
    }
