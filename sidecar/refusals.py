"""Refusals in the shape git shows: text/plain lines, an ERR packet, LFS's JSON, a 401."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import frozen

from gitwire.reportstatus import refuse_fetch
from netpolicy.codes import CODES
from netpolicy.explain import refusal_lines
from netpolicy.policy import Policy, Tier
from sidecar.forwarding import Headers, Refuse

_PLAIN: Headers = ((b"Content-Type", b"text/plain"),)
_LFS: Headers = ((b"Content-Type", b"application/vnd.git-lfs+json"),)
_FETCHED: Headers = ((b"Content-Type", b"application/x-git-upload-pack-result"),)
_CHALLENGE: Headers = ((b"WWW-Authenticate", b'Basic realm="gitmoat"'), *_PLAIN)


@frozen
class Reply:
    status: int
    headers: Headers
    body: bytes


def refusal(
    refuse: Refuse,
    request_id: str,
    policy: Policy,
    tier: Tier,
    retry: int = 0,
    braked: bool = False,
) -> Reply:
    lines = refusal_lines(refuse.code, request_id, policy, tier, braked)
    if refuse.code == "G102":
        return Reply(refuse.status, _LFS, _lfs(lines))
    if refuse.status == 200:
        return Reply(200, _FETCHED, refuse_fetch("\n".join(lines)))
    after: Headers = ((b"Retry-After", b"%d" % retry),) if retry else ()
    return Reply(refuse.status, (*_PLAIN, *after), _text(lines))


def challenge(request_id: str) -> Reply:
    """Git asks the credential helper at the first 401 and shows the text of the second."""
    code = CODES["H104"]
    lines = [f"gitmoat: {code.text} ({code.id})", f"request id: {request_id}"]
    return Reply(401, _CHALLENGE, _text(lines))


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii", "replace")


def _lfs(lines: Sequence[str]) -> bytes:
    return json.dumps({"message": " ".join(lines)}).encode("ascii")
