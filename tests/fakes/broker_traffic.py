"""What a sidecar asks of the broker, and an upstream's answers, as the tests of git use them."""

from __future__ import annotations

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import NoBody
from tests.fakes.broker_world import (
    Asker,
    Reply,
    envelope,
)
from tests.fakes.fake_upstream import ok

RESULT = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
CHUNKED = RESULT + b"Transfer-Encoding: chunked\r\n\r\n"

TARGET = "/git/up/acme/app.git/info/refs?service=git-upload-pack"
UPLOAD = Service.UPLOAD_PACK
REFS = format_data(b"# service=git-upload-pack\n") + FLUSH + format_data(b"version 2\n") + FLUSH
ADVERTISEMENT = ok(UPLOAD, "advertisement", REFS)


def begin_refs(sidecar: Asker) -> Reply:
    headers = [*envelope(), (b"Accept", b"*/*"), (b"Git-Protocol", b"version=2")]
    return sidecar.begin("GET", TARGET, headers, NoBody())[1]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
