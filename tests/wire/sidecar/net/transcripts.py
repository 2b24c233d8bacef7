"""Requests through a sidecar: the bytes its client and its broker get, which must not change.

python -m tests.wire.sidecar.net.transcripts --record    writes tests/vectors/sidecar_exchanges.json
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from gitmoat.net.http.incoming import Incoming
from tests.fakes.sidecar_requests import info_refs, receive, upload
from tests.fakes.sidecar_world import Collected, World
from tests.fakes.whole_sidecar import whole_world
from tests.wire.sidecar.net.stage import HOST, POLICY

FILE = Path(__file__).parents[3] / "vectors" / "sidecar_exchanges.json"
APP = "hub.example/acme/app"


def _get(target: str, host: str = HOST, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def _connect(to: str) -> bytes:
    return f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n".encode()


_LFS = f"/{APP}.git/info/lfs/objects/batch"
# Name: port, request, and the status and type of the broker's answer.
REQUESTS: dict[str, tuple[str, bytes, int, str]] = {
    "refs": ("git", info_refs(APP), 200, "application/x-git-upload-pack-advertisement"),
    "fetch": ("git", upload(APP, b"0000"), 200, "application/x-git-upload-pack-result"),
    "push": ("git", receive(APP, b"0000"), 200, "application/x-git-receive-pack-result"),
    "refs, refused by the broker": ("git", info_refs(APP), 404, "text/plain"),
    "refs, asked for a login": ("git", info_refs(APP), 401, "text/plain"),
    "refs, throttled": ("git", info_refs(APP), 429, "text/plain"),
    "refs, broker unavailable": ("git", info_refs(APP), 503, "text/plain"),
    "refs, an answer that is none": ("git", info_refs(APP), 200, "text/html"),
    "refs, redirected": ("git", info_refs(APP), 302, "text/plain"),
    "unknown repository": ("git", info_refs("hub.example/acme/none"), 200, "text/plain"),
    "forbidden repository": ("git", info_refs("hub.example/acme/web-secrets"), 200, "text/plain"),
    "fetch of what may only be pushed": ("git", info_refs("hub.example/acme/drop"), 200, ""),
    "lfs": ("git", _get(_LFS, "127.0.0.1:418"), 200, "text/plain"),
    "malformed": ("git", b"GET  / HTTP/1.1\r\n\r\n", 200, "text/plain"),
    "without a token": ("helper", info_refs(APP), 200, "text/plain"),
    "plain": ("proxy", _get(f"http://{HOST}/a?b"), 200, "text/plain"),
    "plain, not found": ("proxy", _get(f"http://{HOST}/none"), 404, "text/html"),
    "plain, another host": ("proxy", _get("http://other.example/", "other.example"), 200, ""),
    "plain, DNS": (
        "proxy",
        _get(f"http://{HOST}/dns-query", HOST, "Accept: application/dns-message"),
        200,
        "text/plain",
    ),
    "connect, refused by the broker": ("proxy", _connect(f"{HOST}:443"), 502, "text/plain"),
    "connect, another host": ("proxy", _connect("other.example:443"), 200, "text/plain"),
    "connect, an address": ("proxy", _connect("192.0.2.1:443"), 200, "text/plain"),
}


def seen(name: str, folder: Path) -> dict[str, str]:
    """What one request comes to; ids are replaced by a mark."""
    port, raw, status, kind = REQUESTS[name]
    with whole_world(folder, policy=POLICY) as world:
        world.start()

        def answer(incoming: Incoming, body: bytes) -> None:
            incoming.reply(status, ((b"Content-Type", kind.encode()),), b"said by the broker\n")

        world.broker.handler = lambda incoming: void(Collected(incoming, answer))
        client = world.answer(_port(world, port), raw)
        world.loop.settle()
        world.loop.pass_time(2)
        heard = bytes(world.broker.heard)
    return {"client": _text(client), "broker": _text(heard)}


def void(_: object) -> None:
    """A handler returns nothing."""


def _port(world: World, name: str) -> int:
    ports = {"git": world.untrusted_port, "helper": world.helper_port, "proxy": world.proxy_port}
    return ports[name]


def _text(octets: bytes) -> str:
    return re.sub(r"\b[0-9a-f]{16}\b", "ID", octets.decode("latin-1"))


def record() -> None:
    found = {}
    for name in REQUESTS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = seen(name, Path(folder))
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit(__doc__)
    record()
