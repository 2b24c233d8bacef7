"""Refusals in the shapes that git shows. Pure: a code becomes one whole reply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import frozen

from gitmoat.codes import CODES
from gitmoat.wire.git.receivepack import PushCommands
from gitmoat.wire.git.report_status import refuse_fetch, refuse_push
from gitmoat.wire.git.smarthttp import Fetch, GitRequest, Push, response_type
from gitmoat.wire.http.framing import Headers

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
    return CODES[code].always


def _headers(kind: bytes, request_id: str, retry_after: int) -> Headers:
    headers = [(b"Content-Type", kind), (b"Cache-Control", b"no-store")]
    if request_id:
        headers.append((b"Gitmoat-Request-Id", request_id.encode()))
    if retry_after:
        headers.append((b"Retry-After", b"%d" % retry_after))
    return tuple(headers)


def text_reply(code: str, lines: Sequence[str], request_id: str = "", retry: int = 0) -> Reply:
    body = "".join(f"{line}\n" for line in lines).encode("ascii", "replace")
    return Reply(CODES[code].git, _headers(_TEXT, request_id, retry), body)


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
    odd: Sequence[bytes] = (),
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
