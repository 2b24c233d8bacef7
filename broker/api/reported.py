"""What a sidecar reports, as the event that is recorded of it, marked as reported."""

from __future__ import annotations

from typing import assert_never

from gitmoat.audit.events import (
    CredentialGranted,
    CredentialRefused,
    EgressRefusedReported,
    GitRefusedReported,
    PeerRefusedReported,
)
from gitmoat.messages.report import Event, Report

Recorded = (
    PeerRefusedReported
    | CredentialGranted
    | CredentialRefused
    | EgressRefusedReported
    | GitRefusedReported
)


def recorded(report: Report, sandbox: str, session: str) -> Recorded:
    who = {"sandbox": sandbox, "session": session}
    uid, repo, code, req = report.uid, report.repo, report.code or "", report.req
    count = report.count if report.count > 1 else None
    match report.event:
        case Event.PEER_REFUSED:
            return PeerRefusedReported(**who, code=code, peer_uid=uid, op="credential", count=count)
        case Event.CREDENTIAL_GRANTED:
            return CredentialGranted(**who, repo=repo or "-", peer_uid=uid, count=count)
        case Event.CREDENTIAL_REFUSED:
            return CredentialRefused(**who, code=code, repo=repo, peer_uid=uid, count=count)
        case Event.EGRESS_REFUSED:
            op, to = report.op or "", report.to
            return EgressRefusedReported(
                **who, code=code, op=op, to=to, peer_uid=uid, req=req, count=count
            )
        case Event.GIT_REFUSED:
            return GitRefusedReported(
                **who, code=code, repo=repo, peer_uid=uid, req=req, count=count
            )
        case _:
            assert_never(report.event)
