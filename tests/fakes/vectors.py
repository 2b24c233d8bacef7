"""tests/vectors: requests that must be refused, spelt for whichever hop reads them.

One file for the pure reader, the sidecar and the broker, so that they are shown to agree. Each
character of a spelling is one byte; a word in angle brackets stands for what `Spelling` has.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

# Each of these is another hop's business, or nobody's.
ADDED = [
    b"Authorization: Basic eDp5",
    b"Cookie: a=b",
    b"Proxy-Authorization: Basic eDp5",
    b"Proxy-Connection: keep-alive",
    b"Forwarded: for=1.2.3.4",
    b"X-Forwarded-For: 1.2.3.4",
    b"X-Forwarded-Host: other",
    b"X-Original-URL: /other",
    b"X-HTTP-Method-Override: DELETE",
    b"Via: 1.1 x",
    b"Range: bytes=0-1",
    b"If-None-Match: *",
    b"Accept-Encoding: gzip",
    b"TE: trailers",
    b"Origin: https://other",
    b"Referer: https://other",
    b"User-Agent: evil/1",
    b"Upgrade: h2c",
    b"Upgrade: websocket",
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
    b"Gitmoat-Tier: helper",
    b"Gitmoat-Request-Id: 0000000000000000",
    b"X-Gitmoat: 1",
]

_FILE = Path(__file__).parents[1] / "vectors" / "refused_requests.json"
_REPEATED = re.compile(r"<([0-9]+) ([^>]+)>", re.DOTALL)
_WORD = re.compile(r"<([A-Z]+(?: [a-z ]+)?)>")
_LINES = "Host: h\r\n{envelope}Content-Type: application/x-git-{service}-request\r\n"


@frozen
class Vector:
    """`hop` is "broker" where only the broker looks that deep, "sidecar" where what a path is below
    differs between them; both refuse it."""

    id: str
    form: str
    raw: str
    status: tuple[int, ...]
    closes: bool
    code: str
    hop: str | None


@cache
def refused() -> tuple[Vector, ...]:
    return tuple(_read())


def _read() -> Iterator[Vector]:
    for entry in json.loads(_FILE.read_text()):
        for number, raw in enumerate(entry["spellings"]):
            name, status = entry["form"], tuple(entry["status"])
            what = (status, entry["closes"], entry["code"], entry.get("hop"))
            yield Vector(f"{name} {number}", name, raw, *what)


@frozen
class Spelling:
    """How one hop names the repository `OWNER/APP` at `place`, which it serves."""

    place: str
    owner: str = "acme"
    app: str = "app"
    envelope: str = ""

    def bytes_of(self, raw: str) -> bytes:
        text = _WORD.sub(lambda found: self._words()[found[1]], raw)
        text = _WORD.sub(lambda found: self._words()[found[1]], text)
        return _REPEATED.sub(lambda found: int(found[1]) * found[2], text).encode("latin-1")

    @property
    def allowed(self) -> bytes:
        """A request that is served, to see whether a connection still serves."""
        return self.bytes_of("<GET>\r\n")

    def _words(self) -> dict[str, str]:
        repository = f"{self.place}{self.owner}/{self.app}.git"
        target = f"{repository}/info/refs?service=git-upload-pack"
        posts = {
            word: f"POST {repository}/git-{service} HTTP/1.1\r\n"
            + _LINES.format(envelope=self.envelope, service=service)
            for word, service in (("POST", "upload-pack"), ("PUSH", "receive-pack"))
        }
        return {
            **posts,
            **_compressed(),
            "GET": f"GET {target} HTTP/1.1\r\nHost: h\r\n{self.envelope}",
            "TARGET": target,
            "REPO": repository,
            "PLACE": self.place,
            "NAME": f"{self.owner}/{self.app}",
            "OWNER": self.owner,
            "APP": self.app,
            "ENVELOPE": self.envelope,
            "END": "\r\n\r\n",
        }


@cache
def _compressed() -> dict[str, str]:
    """The rest of a request: its length and a body of this kind."""
    member = gzip.compress(b"0011command=ls-refs\n0000")
    bodies = {
        "two members": member + member,
        "bytes behind": member + b"0000",
        "cut": member[:-3],
        "plain": b"0011command=ls-refs\n0000",
        "bomb": gzip.compress(bytes(80 << 20)),
        "deep bomb": gzip.compress(b"0000" * (20 << 20)),
    }
    return {
        f"GZIP {kind}": f"Content-Length: {len(body)}\r\n\r\n" + body.decode("latin-1")
        for kind, body in bodies.items()
    }


def answers(heard: bytes) -> list[bytes]:
    """The answers in what was heard, each with its head; none of ours has such a line inside."""
    return [b"HTTP/1.1 " + each for each in heard.split(b"HTTP/1.1 ")[1:]]


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def check(vector: Vector, first: bytes, more: list[bytes]) -> None:
    assert status_of(first) in vector.status, vector.id
    assert vector.code.encode() in first, vector.id
    assert (b"\r\nConnection: close\r\n" in first) == vector.closes, vector.id
    assert [status_of(each) for each in more] == ([] if vector.closes else [200]), vector.id
