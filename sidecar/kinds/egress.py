"""Requests for other hosts: a tunnel, asked for by CONNECT or by a ClientHello, and plain HTTP."""

from __future__ import annotations

from typing import Final, assert_never

from gitmoat.codes import CODES
from gitmoat.messages.report import Event, Report
from gitmoat.net.causes import Cause
from gitmoat.wire.clienthello import hello_for
from gitmoat.wire.http.heads import Headers, RequestHead, ResponseHead
from gitmoat.wire.http.proxying import (
    PlainRequest,
    TunnelRequest,
    classify_direct,
    classify_proxy,
    format_connect,
    format_plain,
    passed_on,
)
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny as PolicyDeny
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress, decide_plain
from netpolicy.egress_rules.refusal import refusal
from netpolicy.policy import Policy, Tier
from sidecar.kind import (
    Allow,
    Answered,
    Challenge,
    Deny,
    Joined,
    Kind,
    Reply,
    Scope,
    Source,
    Stream,
    Told,
)
from sidecar.link.connection_pool import Share

CODE: Final = b"gitmoat-code"
_NOT_A_NAME: Final = (
    403  # of gitmoat.wire.hostname: understood, and not a host that could be reached
)
# Longer than the broker's own, so that it is the broker who ends an idle tunnel.
_LONGER: Final = 30.0
_UNREACHABLE: Final = Deny("B101", ours=False)


def _misread(malformed: Malformed) -> Deny:
    named = malformed.status == _NOT_A_NAME
    return Deny("E103" if named else "E111", close=not named)


def _classify_tunnel(head: RequestHead, source: Source) -> TunnelRequest | Deny | None:
    if head.method != b"CONNECT":
        return None
    try:
        request = classify_proxy(head)
    except Malformed as malformed:
        return _misread(malformed)
    return request if isinstance(request, TunnelRequest) else None


def _classify_plain(head: RequestHead, source: Source) -> PlainRequest | Deny | None:
    try:
        if source.host is not None:
            return classify_direct(head, source.host)
        request = classify_proxy(head)
    except Malformed as malformed:
        return _misread(malformed)
    return request if isinstance(request, PlainRequest) else None


def _decide_tunnel(
    request: TunnelRequest, source: Source, scope: Scope
) -> Allow[TunnelRequest] | Deny:
    verdict = decide_egress(scope.policy, request.to, "tls", scope.upstreams.names)
    if isinstance(verdict, EgressAllow):
        return Allow(request)
    return Deny(verdict.code, subject=request.to.text)


def _decide_plain(
    request: PlainRequest, source: Source, scope: Scope
) -> Allow[PlainRequest] | Deny:
    method = request.method.decode("ascii")
    verdict = decide_plain(scope.policy, request.to, method, scope.upstreams.names)
    if isinstance(verdict, PolicyDeny):
        return Deny(verdict.code, subject=request.to.text)
    if request.asks_for_dns:
        return Deny("E112", subject=request.to.text)
    return Allow(request)


def _with_id(request_id: str) -> Headers:
    return ((b"Gitmoat-Request-Id", request_id.encode("ascii")),)


def _connect_head(
    request: TunnelRequest, source: Source, request_id: str, asked: RequestHead | None
) -> bytes:
    return format_connect(request.to, _with_id(request_id))


def _plain_head(
    request: PlainRequest, source: Source, request_id: str, asked: RequestHead | None
) -> bytes | Deny:
    if asked is None:
        raise ValueError("a plain request has a head")
    try:
        return format_plain(request, asked, _with_id(request_id), absolute=True)
    except Malformed:
        return Deny("E111", subject=request.to.text, close=True)


def _not_opened(request: TunnelRequest, source: Source, head: ResponseHead) -> Deny:
    try:
        code = _code_in(head)
    except Malformed:
        code = None
    return Deny(code or "B101", subject=request.to.text, ours=False)


def _answer_plain(request: PlainRequest, source: Source, head: ResponseHead) -> Answered | Deny:
    subject = request.to.text
    try:
        code = _code_in(head)
        headers = () if code else passed_on(head, request.method == b"HEAD")
    except Malformed:
        return Deny("B101", subject=subject, ours=False)
    if code is not None:
        return Deny(code, subject=subject, ours=False)
    return Answered(head.status, headers)


def _code_in(head: ResponseHead) -> str | None:
    """The broker's refusal of its own; an upstream's answer has no such header."""
    value = head.header(CODE)
    code = None if value is None else value.decode("ascii", "replace")
    return code if code in CODES else None


def _refuse(refused: Deny | Challenge, told: Told) -> Reply:
    """Clients show the status line of a refused CONNECT, and the body of anything else."""
    match refused:
        case Deny(code=code, subject=subject, close=close):
            shown = refusal(code, subject or "", told.request_id, told.policy)
        case Challenge():
            raise ValueError("nobody is asked for a token here")
        case _:
            assert_never(refused)
    headers = ((b"Content-Type", b"text/plain"), (b"Proxy-Status", shown.proxy_status))
    return Reply(shown.status, headers, shown.body, close, shown.phrase)


def egress_refused(
    op: str, code: str, to: str | None, uid: int, request_id: str | None = None, count: int = 1
) -> Report:
    event = Event.EGRESS_REFUSED
    return Report(event=event, uid=uid, code=code, req=request_id, count=count, op=op, to=to)


def _report_tunnel(refused: Deny | Challenge, source: Source, request_id: str | None) -> Report:
    return _report("tunnel", refused, source, request_id)


def _report_plain(refused: Deny | Challenge, source: Source, request_id: str | None) -> Report:
    return _report("http", refused, source, request_id)


def _report(op: str, refused: Deny | Challenge, source: Source, request_id: str | None) -> Report:
    if isinstance(refused, Challenge):
        raise ValueError("nobody is asked for a token here")
    return egress_refused(op, refused.code, refused.subject, source.uid, request_id)


def _tries_of_tunnel(request: TunnelRequest, cause: Cause) -> int:
    """A broker that restarts leaves dead links behind; one that said nothing for so long would not
    be quicker now."""
    return 1 if cause is Cause.NO_ANSWER else 2


def _share(tier: Tier) -> Share:
    return Share.EGRESS


def _idle(policy: Policy) -> float:
    return policy.limits.egress_idle + _LONGER


def _to(request: TunnelRequest | PlainRequest) -> str:
    return request.to.text


TUNNEL: Final = Kind[TunnelRequest, TunnelRequest](
    name="tunnel",
    listeners=frozenset({"proxy", "tls"}),
    tiers=frozenset({Tier.UNTRUSTED}),
    body=Joined(
        opening=lambda request: hello_for(request.to.host), not_opened=Deny("E105"), idle=_idle
    ),
    share=_share,
    classify=_classify_tunnel,
    decide=_decide_tunnel,
    opens=lambda request: True,
    head=_connect_head,
    answer=_not_opened,
    tries=_tries_of_tunnel,
    refuse=_refuse,
    report=_report_tunnel,
    subject=_to,
    too_often=Deny("E108"),
    unreachable=_UNREACHABLE,
    malformed=Deny("E111", close=True),
    queues=False,
    lasts=True,
)

HTTP: Final = Kind[PlainRequest, PlainRequest](
    name="http",
    listeners=frozenset({"proxy", "plain"}),
    tiers=frozenset({Tier.UNTRUSTED}),
    body=Stream(),
    share=_share,
    classify=_classify_plain,
    decide=_decide_plain,
    opens=lambda request: True,
    head=_plain_head,
    answer=_answer_plain,
    tries=lambda request, cause: 1,  # whatever came of it: it may have been done
    refuse=_refuse,
    report=_report_plain,
    subject=_to,
    too_often=Deny("E108"),
    unreachable=_UNREACHABLE,
    malformed=Deny("E111", close=True),
    queues=False,
    lasts=False,
)
