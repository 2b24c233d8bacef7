"""Requests through a broker: its answer, what other servers get, and its audit; none may change.

python -m tests.wire.broker.net.transcripts --record    writes tests/vectors/broker_exchanges.json
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_world import BASIC, ID, PACK_HEAD, commands
from tests.fakes.clienthello import message, records, sni
from tests.fakes.fake_upstream import ok
from tests.fakes.internet import HELLO
from tests.wire.broker.net.held_broker import AGENT, ALLOWED, IDLE, QUEUE
from tests.wire.broker.net.recorded_broker import RecordedBroker

FILE = Path(__file__).parents[3] / "vectors" / "broker_exchanges.json"
Seen = dict[str, Any]
Hook = Callable[[RecordedBroker], Awaitable[None]]


@frozen
class Case:
    """One request, what the server that is asked says to it, and what else happens."""

    request: bytes
    said: bytes | None = b""  # None: that server ends the connection
    policy: str = ALLOWED
    active: bool = True
    first: tuple[bytes, ...] = ()  # requests before it, which are not part of the transcript
    before: Hook | None = None
    meanwhile: Hook | None = None
    in_tunnel: bytes = b""


def _raw(line: str, host: str, *headers: str, body: bytes | None = None) -> bytes:
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    lines = [f"{line} HTTP/1.1", f"Host: {host}", f"Gitmoat-Request-Id: {ID}", *headers, *length]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def _git(line: str, *headers: str, body: bytes | None = None) -> bytes:
    return _raw(line, "gitmoat", "Gitmoat-Tier: untrusted", *headers, body=body)


def _refs(service: str = "git-upload-pack", repo: str = "acme/app") -> bytes:
    target = f"/git/up/{repo}.git/info/refs?service={service}"
    return _git(f"GET {target}", "Accept: */*", "Git-Protocol: version=2")


def _post(service: str, body: bytes, *headers: str, repo: str = "acme/app") -> bytes:
    kind = f"Content-Type: application/x-{service}-request"
    return _git(f"POST /git/up/{repo}.git/{service}", kind, *headers, body=body)


def _fetch(body: bytes, *headers: str) -> bytes:
    return _post("git-upload-pack", body, *headers)


def _push(body: bytes, repo: str = "acme/app") -> bytes:
    return _post("git-receive-pack", body, repo=repo)


def _plain(method: str = "GET", *headers: str, host: str = "web.example") -> bytes:
    return _raw(f"{method} http://{host}:80/a?b", host, *headers)


def _connect(to: str) -> bytes:
    return _raw(f"CONNECT {to}", to)


def _refused(status: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, "Content-Length: 12", "", "said by them"]
    return "\r\n".join(lines).encode()


def _page(*headers: str) -> bytes:
    return _refused("200 OK", *headers)


# What happens to a request


async def _end_session(broker: RecordedBroker) -> None:
    (session,) = broker.world.sessions.living()
    await broker.tell_as_host("revoke", session=session.stored.id, reason="test")


async def _fill_disk(broker: RecordedBroker) -> None:
    broker.fill_disk()


async def _take_turn(broker: RecordedBroker) -> None:
    broker.turn.hold()


async def _wait_for_turn(broker: RecordedBroker) -> None:
    admission = broker.world.broker.context.admission
    await broker.until(lambda: admission.waiting, "that the request waits for its turn")
    broker.time.advance(QUEUE)


async def _wait_for_answer(broker: RecordedBroker) -> None:
    await broker.until(lambda: broker.upstream.heads, "that the upstream has the request")
    broker.time.advance(IDLE)


# The requests

UPLOAD, RECEIVE = Service.UPLOAD_PACK, Service.RECEIVE_PACK
MAIN = "refs/heads/main"
OPTIONS = format_data(b"ci.skip") + FLUSH
WITH_OPTIONS = "report-status side-band-64k push-options"
OPTIONS_ALLOWED = ALLOWED.replace("push = {", "push = { options = true,")
ONE_A_MINUTE = ALLOWED.replace("git_requests_per_minute = 50", "git_requests_per_minute = 1")
V2 = format_data(b"version 2\n") + FLUSH
REFS = ok(UPLOAD, "advertisement", format_data(b"# service=git-upload-pack\n") + FLUSH + V2)
TIP = format_data(b"1" * 40 + b" refs/heads/main\0 report-status side-band-64k agent=git/2.39\n")
PUSHABLE = format_data(b"# service=git-receive-pack\n") + FLUSH + TIP + FLUSH
WANTS = format_data(b"command=fetch") + b"0001" + format_data(b"want " + b"1" * 40) + FLUSH
FETCHED = ok(UPLOAD, "result", format_data(b"\x01PACK of the upstream") + FLUSH)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n8\r\n0008NAK\n\r\n0\r\n\r\n"
)
PACK = PACK_HEAD + bytes(range(32))
STATUS = format_data(b"unpack ok\n") + format_data(f"ok {AGENT}\n".encode()) + FLUSH
PUSHED = ok(RECEIVE, "result", format_data(b"\x01" + STATUS) + FLUSH)
REPORT = json.dumps({"event": "peer-refused", "uid": 5, "code": "H101"}).encode()
# WANTS in gzip, as octets: versions of zlib compress differently.
COMPRESSED = bytes.fromhex(
    "1f8b0800000000000203333030344ccecfcd4dcc4bb14d4b2d49ce30303030343030362c4fcc2b51"
    "3024120035190000a6ded5544a000000"
)

CASES: dict[str, Case] = {
    "refs to fetch": Case(_refs(), REFS),
    "refs to push": Case(_refs("git-receive-pack"), ok(RECEIVE, "advertisement", PUSHABLE)),
    "refs, helper's tier": Case(_refs().replace(b"untrusted", b"helper"), REFS),
    "fetch": Case(_fetch(WANTS), FETCHED),
    "fetch, answered in chunks": Case(_fetch(WANTS), CHUNKED),
    "fetch, compressed": Case(_fetch(COMPRESSED, "Content-Encoding: gzip"), FETCHED),
    "push": Case(_push(commands(AGENT) + PACK), PUSHED),
    "push, refused ref": Case(_push(commands(AGENT, MAIN) + PACK)),
    "push, only fetching allowed": Case(_push(commands(AGENT) + PACK, repo="acme/gate")),
    "push, options refused": Case(
        _push(commands(AGENT, capabilities=WITH_OPTIONS) + OPTIONS + PACK)
    ),
    "push, options allowed": Case(
        _push(commands(AGENT, capabilities=WITH_OPTIONS) + OPTIONS + PACK),
        PUSHED,
        policy=OPTIONS_ALLOWED,
    ),
    "push, malformed": Case(_push(b"zzzz" + PACK)),
    "push, probe": Case(_push(FLUSH)),
    "push, connection lost": Case(_push(commands(AGENT) + PACK), None),
    "lfs": Case(_git("GET /git/up/acme/app.git/info/lfs/objects/batch")),
    "unknown repository": Case(_refs(repo="acme/none")),
    "forbidden repository": Case(_refs(repo="acme/a-secret")),
    "unknown upstream": Case(_git("GET /git/other/acme/app.git/info/refs?service=git-upload-pack")),
    "unserved path": Case(_git("GET /git/up/acme/app.git/HEAD")),
    "malformed target": Case(_git("GET /git/up/acme/%2e%2e/app.git/info/refs")),
    "malformed request": Case(b"GET  / HTTP/1.1\r\n\r\n"),
    "without an id": Case(_refs().replace(b"Gitmoat-Request-Id: " + ID.encode() + b"\r\n", b"")),
    "ended session": Case(_refs(), before=_end_session),
    "session not yet active": Case(_refs(), active=False),
    "throttled": Case(_refs(), REFS, policy=ONE_A_MINUTE, first=(_refs(),) * 5),
    "fetch, throttled": Case(_fetch(WANTS), REFS, policy=ONE_A_MINUTE, first=(_refs(),) * 5),
    "busy": Case(_refs(), before=_take_turn, meanwhile=_wait_for_turn),
    "no audit": Case(_refs(), before=_fill_disk),
    "push, no audit": Case(_push(commands(AGENT) + PACK), before=_fill_disk),
    "upstream 401": Case(_refs(), _refused("401 Unauthorized", "WWW-Authenticate: Basic")),
    "upstream 403": Case(_refs(), _refused("403 Forbidden")),
    "upstream 404": Case(_refs(), _refused("404 Not Found")),
    "upstream 429": Case(_refs(), _refused("429 Too Many Requests", "Retry-After: 40")),
    "upstream 500": Case(_refs(), _refused("500 Internal Server Error")),
    "upstream 500 to a fetch": Case(_fetch(WANTS), _refused("500 Internal Server Error")),
    "upstream 500 to a push": Case(
        _push(commands(AGENT) + PACK), _refused("500 Internal Server Error")
    ),
    "upstream redirects": Case(_refs(), _refused("302 Found", "Location: https://evil.example/")),
    "upstream, another type": Case(_refs(), _page("Content-Type: text/html")),
    "upstream, connection lost": Case(_refs(), None),
    "upstream, silent": Case(_refs(), meanwhile=_wait_for_answer),
    "connect": Case(_connect("web.example:443"), b"said by them", in_tunnel=HELLO),
    "connect, another host": Case(_connect("other.example:443")),
    "connect, another port": Case(_connect("web.example:22")),
    "connect, the git server": Case(_connect("localhost:443")),
    "connect, another name inside": Case(
        _connect("web.example:443"), in_tunnel=records(message(sni(b"evil.example")))
    ),
    "connect, no TLS inside": Case(_connect("web.example:443"), in_tunnel=b"SSH-2.0-x\r\n"),
    "connect, no audit": Case(_connect("web.example:443"), before=_fill_disk),
    "plain": Case(_plain("GET", "Accept: */*", "X-Other: x"), _page("Content-Type: text/plain")),
    "plain, not found": Case(_plain(), _refused("404 Not Found", "X-Other: x")),
    "plain, connection lost": Case(_plain(), None),
    "plain, another method": Case(_plain("DELETE")),
    "plain, another host": Case(_plain(host="other.example")),
    "plain, DNS": Case(_plain("GET", "Accept: application/dns-message")),
    "report": Case(_raw("POST /report", "gitmoat", body=REPORT)),
    "report, malformed": Case(_raw("POST /report", "gitmoat", body=b"[]")),
}  # fmt: skip


async def seen(reactor: Any, folder: Path, name: str) -> Seen:
    """What one request comes to; what differs from run to run is replaced by a mark."""
    case = CASES[name]
    broker = await RecordedBroker(reactor, folder).open(case.policy, case.active)
    try:
        await _prepare(broker, case)
        broker.client.say(case.request)
        if case.meanwhile is not None:
            await case.meanwhile(broker)
        if case.in_tunnel:
            await broker.until(lambda: b"\r\n\r\n" in broker.client.heard, "the tunnel")
            broker.client.say(case.in_tunnel)
            await broker.until(lambda: broker.client.lost, "the tunnel's end")
        await broker.settled()
        return {
            "client": _text(broker.client.heard),
            "closed": broker.client.lost,
            "upstream": [
                _text(heard).replace(f":{broker.upstream.port}", ":PORT")
                for heard in broker.upstream.heard
            ],
            "outside": [_text(each.heard) for each in broker.internet.servers],
            "audit": [_record(line) for line in broker.audit()],
        }
    finally:
        await broker.close()


async def _prepare(broker: RecordedBroker, case: Case) -> None:
    broker.answer(case.said)
    for each in case.first:
        broker.forget()  # the answer to the one before is not taken for that to this one
        broker.client.say(each)
        await broker.settled()
    if case.before is not None:
        await case.before(broker)
    broker.forget()


def _text(octets: bytes) -> str:
    return octets.replace(BASIC, b"CREDENTIAL").decode("latin-1")


def _record(line: bytes) -> str:
    text = re.sub(r'"(ts|prev)":"[^"]*"', r'"\1":"ANY"', line.decode())
    return re.sub(r'"(seq|ms)":[0-9]+', r'"\1":"ANY"', text)


async def record(reactor: Any) -> None:
    found = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = await seen(reactor, Path(folder), name)
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit(__doc__)
    react(lambda reactor: ensureDeferred(record(reactor)))
