"""What a sidecar tells of itself for the audit: believed by nobody, so it is marked and capped."""

from __future__ import annotations

import re
from typing import Any

from audit.events import (
    CredentialGranted,
    CredentialRefused,
    EgressRefusedReported,
    Event,
    GitRefusedReported,
    PeerRefusedReported,
)
from broker.bodies import text
from gitwire.errors import Malformed
from netpolicy.codes import CODES

REPORT_LIMIT = 4096

_MOST = 10**9
_OPERATIONS = ("tunnel", "http", "dns")
_REQUEST_ID = re.compile(r"[0-9a-f]{16}")


def parse_report(fields: dict[str, Any], sandbox: str, session: str) -> Event:
    """One event of the closed set; Malformed for anything else."""
    who = {"sandbox": sandbox, "session": session}
    uid, repo, count = _uid(fields), _repo(fields), _count(fields)
    match fields.get("event"):
        case "peer-refused":
            code = _code(fields)
            return PeerRefusedReported(**who, code=code, peer_uid=uid, op="credential", count=count)
        case "credential-granted":
            return CredentialGranted(**who, repo=repo or "-", peer_uid=uid, count=count)
        case "credential-refused":
            code = _code(fields)
            return CredentialRefused(**who, code=code, repo=repo, peer_uid=uid, count=count)
        case "egress-refused":
            code, op, to = _code(fields), _op(fields), _to(fields)
            return EgressRefusedReported(
                **who, code=code, op=op, to=to, peer_uid=uid, req=_req(fields), count=count
            )
        case "git-refused":
            code, req = _code(fields), _req(fields)
            return GitRefusedReported(
                **who, code=code, repo=repo, peer_uid=uid, req=req, count=count
            )
        case _:
            raise Malformed("report is of no known kind")


def _code(fields: dict[str, Any]) -> str:
    code = text(fields, "code")
    if code not in CODES:
        raise Malformed("code is unknown")
    return code


def _uid(fields: dict[str, Any]) -> int | None:
    uid = fields.get("uid")
    if uid is not None and (type(uid) is not int or not 0 <= uid < 1 << 32):
        raise Malformed("uid is not one")
    return uid


def _count(fields: dict[str, Any]) -> int | None:
    """How many of the same were put together; None for one."""
    count = fields.get("count")
    if count is not None and (type(count) is not int or not 1 < count <= _MOST):
        raise Malformed("count is not one")
    return count


def _repo(fields: dict[str, Any]) -> str | None:
    return None if fields.get("repo") is None else text(fields, "repo", 600)


def _op(fields: dict[str, Any]) -> str:
    op = text(fields, "op")
    if op not in _OPERATIONS:
        raise Malformed("op is unknown")
    return op


def _to(fields: dict[str, Any]) -> str | None:
    return None if fields.get("to") is None else text(fields, "to", 300)


def _req(fields: dict[str, Any]) -> str | None:
    if fields.get("req") is None:
        return None
    req = text(fields, "req")
    if _REQUEST_ID.fullmatch(req) is None:
        raise Malformed("req is not a request id")
    return req
