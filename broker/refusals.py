"""Refusals in the shapes that git shows. Pure: a code becomes one whole reply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import frozen

from gitwire.framing import Headers
from gitwire.receivepack import PushCommands
from gitwire.reportstatus import refuse_fetch, refuse_push
from gitwire.smarthttp import Fetch, GitRequest, Push, response_type

# A 403 is not in here: on a POST git hides its body and prints "Everything up-to-date".
_STATUS = {
    "G101": 404,
    "G102": 404,
    "G103": 404,
    "G104": 400,
    "G105": 404,
    "G203": 400,
    "G303": 429,
    "G305": 429,
    "S101": 401,
    "S102": 503,
    "B103": 503,
    "B106": 503,
    "U108": 429,
}
# These say nothing about one operation, so they keep their status on a POST too.
_ALWAYS_STATUS = frozenset({"G101", "G104", "G203", "S101", "S102"})
_TEXT = b"text/plain"
_JSON = b"application/json"
_LFS_JSON = b"application/vnd.git-lfs+json"


@frozen
class Reply:
    status: int
    headers: Headers
    body: bytes = b""


def has_own_status(code: str) -> bool:
    """Whether this code keeps its HTTP status whatever was asked."""
    return code in _ALWAYS_STATUS


def _headers(kind: bytes, request_id: str, retry_after: int) -> Headers:
    headers = [(b"Content-Type", kind), (b"Cache-Control", b"no-store")]
    if request_id:
        headers.append((b"Gitmoat-Request-Id", request_id.encode()))
    if retry_after:
        headers.append((b"Retry-After", b"%d" % retry_after))
    return tuple(headers)


def text_reply(code: str, lines: Sequence[str], request_id: str = "", retry: int = 0) -> Reply:
    body = "".join(f"{line}\n" for line in lines).encode("ascii", "replace")
    return Reply(_STATUS.get(code, 502), _headers(_TEXT, request_id, retry), body)


def refuse(
    request: GitRequest, code: str, lines: Sequence[str], request_id: str, retry: int = 0
) -> Reply:
    """The refusal of a request of which no body has been understood."""
    if isinstance(request, Fetch) and not has_own_status(code):
        headers = _headers(response_type(request), request_id, 0)
        return Reply(200, headers, refuse_fetch("\n".join(lines)))
    return text_reply(code, lines, request_id, retry)


def refuse_commands(
    request: Push,
    commands: PushCommands,
    lines: Sequence[str],
    reason: str | Mapping[str, str],
    request_id: str,
    odd: Sequence[str] = (),
) -> Reply:
    """The refusal of a push whose commands are known: git shows a reason for each ref."""
    headers = _headers(response_type(request), request_id, 0)
    return Reply(200, headers, refuse_push(commands, lines, reason, odd))


def answer_probe(request: Push, request_id: str) -> Reply:
    """Git sends `0000` alone before a large push, to find out whether it must authenticate."""
    return Reply(200, _headers(response_type(request), request_id, 0))


def lfs_reply(lines: Sequence[str], request_id: str) -> Reply:
    body = json.dumps({"message": " ".join(lines)}).encode()
    return Reply(501, _headers(_LFS_JSON, request_id, 0), body)


def json_reply(status: int, fields: Mapping[str, object]) -> Reply:
    return Reply(status, _headers(_JSON, "", 0), json.dumps(fields).encode())
