"""The broker's own decision about one request. Pure: it decides, and never does.

Nothing a sidecar says widens anything: the tier header only chooses which rules may apply, and
the scope is the one the host signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import assert_never

from attrs import frozen

from broker.sessions.store.interface import State
from gitmoat.wire.git.receivepack import PushCommands
from gitmoat.wire.git.smarthttp import Advertise, Fetch, GitRequest, Push, Service
from gitmoat.wire.http.heads import RequestHead
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import (
    Allow,
    Deny,
    PushDecision,
    PushDenied,
    Verdict,
    allows_workflows,
    decide_fetch,
    decide_repository,
)
from netpolicy.policy import Policy, Tier
from netpolicy.upstreams import Upstream

AT_ONCE = 250  # commands
_REQUEST_ID = re.compile(rb"[0-9a-f]{16}")
_TIERS = {tier.value.encode(): tier for tier in Tier}


@frozen
class SidecarHeaders:
    """What a sidecar adds to a git request."""

    request_id: str
    tier: Tier


@frozen
class RequestContext:
    """A request together with everything its decision depends on."""

    request: GitRequest
    tier: Tier
    policy: Policy
    upstream: Upstream | None


def read_request_id(head: RequestHead) -> str:
    value = head.header(b"gitmoat-request-id")
    if value is None or _REQUEST_ID.fullmatch(value) is None:
        raise Malformed("request id is missing or not 16 hex digits")
    return value.decode()


def read_sidecar_headers(head: RequestHead) -> SidecarHeaders:
    tier = _TIERS.get(head.header(b"gitmoat-tier") or b"")
    if tier is None:
        raise Malformed("tier is missing or unknown")
    return SidecarHeaders(read_request_id(head), tier)


def decide_session(state: State, overdue: str | None) -> Deny | None:
    """None when the session may ask at all."""
    match state:
        case State.ENDED:
            return Deny("S101", "the session was ended")
        case _ if overdue is not None:
            return Deny("S101", f"the session is over: {overdue}")
        case State.CLOSED:
            return Deny("S102", "the session was not activated")
        case State.ACTIVE:
            return None
        case _:
            assert_never(state)


def decide_request(asked: RequestContext) -> Verdict:
    """Before any body is read. A push is decided once more when its commands are known."""
    upstream = asked.upstream
    if upstream is None:
        return Deny("G101", "no such upstream")
    where = (asked.policy, upstream.name, asked.request.repository, asked.tier)
    match asked.request:
        case Fetch() | Advertise(service=Service.UPLOAD_PACK):
            return decide_fetch(*where, upstream.case_insensitive)
        case Push() | Advertise():
            return decide_repository(*where, upstream.case_insensitive)
        case _:
            assert_never(asked.request)


def deciding_commands(
    asked: RequestContext, commands: PushCommands
) -> Iterator[Allow | PushDenied | None]:
    """None for each step but the last: a push of thousands of refs would keep others waiting."""
    upstream = asked.upstream
    if upstream is None:
        yield PushDenied("G101", {})
        return
    decision = PushDecision(
        asked.policy,
        upstream.name,
        asked.request.repository,
        asked.tier,
        upstream.case_insensitive,
        options=bool(commands.options),
    )
    for begin in range(0, len(commands.commands), AT_ONCE):
        if begin:
            yield None
        decision.feed(commands.commands[begin : begin + AT_ONCE])
    yield decision.verdict()


def decide_commands(asked: RequestContext, commands: PushCommands) -> Allow | PushDenied:
    return next(each for each in deciding_commands(asked, commands) if each is not None)


def decide_workflows(asked: RequestContext, commands: PushCommands | None) -> bool:
    """Whether the credential of an allowed push may be one for workflow files."""
    upstream = asked.upstream
    if upstream is None or commands is None or not commands.commands:
        return False
    return allows_workflows(
        asked.policy,
        upstream.name,
        asked.request.repository,
        asked.tier,
        upstream.case_insensitive,
        commands.commands,
    )


def is_write(request: GitRequest) -> bool:
    """Whether a request is part of a push; its advertisement is one too."""
    match request:
        case Push() | Advertise(service=Service.RECEIVE_PACK):
            return True
        case Fetch() | Advertise():
            return False
        case _:
            assert_never(request)
