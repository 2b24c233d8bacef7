"""Git requests: what becomes of one, and in which shape git is told of a refusal.

The order is the point: shape, then scope, then token. Somebody who may not see a repository gets
the same 404 whether it exists, is forbidden, or is misspelt, and is never asked for a token.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Final, assert_never

from attrs import evolve, field, frozen

from gitmoat.codes import CODES
from gitmoat.messages.report import Event, Report
from gitmoat.net.causes import Cause
from gitmoat.wire.git.report_status import refuse_fetch
from gitmoat.wire.git.repository_name import Place, RepositoryPath
from gitmoat.wire.git.smarthttp import (
    Advertise,
    Fetch,
    GitRequest,
    LfsRequest,
    Push,
    Service,
    Unserved,
    classify,
    headers_of,
    method_of,
    response_type,
    service_of,
    target_of,
)
from gitmoat.wire.http.heads import (
    Headers,
    RequestHead,
    ResponseHead,
    format_request,
    framing_headers,
)
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny as PolicyDeny
from netpolicy.decision import decide_fetch, decide_repository
from netpolicy.git_rules.refusal import refusal_lines
from netpolicy.policy import Policy, Tier
from netpolicy.upstreams import Upstream
from sidecar.credential.tokens import USERNAME, ScopedRepository, scoped
from sidecar.kind import (
    Allow,
    Answered,
    Challenge,
    Deny,
    Kind,
    Reply,
    Scope,
    Source,
    Stream,
    Told,
)
from sidecar.link.connection_pool import Share

NOT_FOUND: Final = "G101"
MALFORMED: Final = "G104"
# As much of a body is kept until there is an answer: all of most fetches.
KEPT: Final = 64 * 1024
# What the broker may say besides 200; anything else is not an answer of ours.
_REFUSALS: Final = frozenset({400, 401, 404, 413, 429, 502, 503})
# It found the body malformed: nothing behind that is read as a request.
_CLOSING: Final = frozenset({400, 413})
_RETRY: Final = frozenset({429, 503})
_NO_ANSWER: Final = Deny("U104", 502, ours=False)
_PLAIN: Final[Headers] = ((b"Content-Type", b"text/plain"),)
_LFS: Final[Headers] = ((b"Content-Type", b"application/vnd.git-lfs+json"),)
_FETCHED: Final[Headers] = ((b"Content-Type", b"application/x-git-upload-pack-result"),)
_CHALLENGE: Final[Headers] = ((b"WWW-Authenticate", b'Basic realm="gitmoat"'), *_PLAIN)


@frozen
class Located:
    """A repository the asking tier may see."""

    upstream: Upstream
    repository: RepositoryPath

    @property
    def scoped(self) -> ScopedRepository:
        upstream = self.upstream
        return scoped(upstream.name, self.repository.text, upstream.case_insensitive)

    @property
    def name(self) -> str:
        """As policies and the audit write it."""
        return f"{self.upstream.name}:{self.repository.text}"


@frozen
class Asked:
    """Understood, and not yet decided."""

    request: GitRequest
    authorization: bytes | None = field(repr=False)


@frozen
class Forward:
    """Goes to the broker, under the upstream's own name."""

    upstream: Upstream
    request: GitRequest


def locate(scope: Scope, tier: Tier, place: Place, repository: RepositoryPath) -> Located | None:
    """The repository as this tier sees it: None for unknown and forbidden alike."""
    upstream = scope.upstreams.by_place(place)
    if upstream is None:
        return None
    fold = upstream.case_insensitive
    verdict = decide_repository(scope.policy, upstream.name, repository, tier, fold)
    return None if isinstance(verdict, PolicyDeny) else Located(upstream, repository)


def _classify(head: RequestHead, source: Source) -> Asked | Deny:
    try:
        request = classify(head, b"/")
        authorization = head.header(b"authorization")
    except Malformed as error:
        return _malformed(error)
    match request:
        case LfsRequest():
            return Deny("G102", 501)
        case Unserved():
            return Deny("G103", 404)
        case Advertise() | Fetch() | Push():
            return Asked(request, authorization)
        case _:
            assert_never(request)


def _malformed(error: Malformed) -> Deny:
    """What was misread once is not read on: its rest could be a request of its own."""
    code = NOT_FOUND if error.status == 404 else MALFORMED
    return Deny(code, error.status, close=code == MALFORMED)


def _decide(asked: Asked, source: Source, scope: Scope) -> Allow[Forward] | Deny | Challenge:
    """A token is asked for last."""
    request, tier = asked.request, source.tier
    located = locate(scope, tier, request.place, request.repository)
    if located is None:
        return Deny(NOT_FOUND, 404, _name_asked(scope, request))
    name = located.name
    if tier is Tier.HELPER:
        token = token_in(asked.authorization)
        if token is None or not scope.accepts(located.scoped, token):
            return Challenge(name, asked.authorization is not None)
    if _fetch_refused(scope.policy, located, tier, request):
        # A POST is refused inside a 200: git shows nothing of an error status there.
        return Deny("G105", 200 if isinstance(request, Fetch) else 404, name)
    return Allow(Forward(located.upstream, request))


def _name_asked(scope: Scope, request: GitRequest) -> str:
    upstream = scope.upstreams.by_place(request.place)
    place = request.place.text if upstream is None else upstream.name
    return f"{place}:{request.repository.text}"


def _fetch_refused(policy: Policy, located: Located, tier: Tier, request: GitRequest) -> bool:
    if service_of(request) is not Service.UPLOAD_PACK:
        return False
    upstream = located.upstream
    fold = upstream.case_insensitive
    verdict = decide_fetch(policy, upstream.name, located.repository, tier, fold)
    return isinstance(verdict, PolicyDeny)


def token_in(authorization: bytes | None) -> bytes | None:
    """The token of `Basic base64(gitmoat:TOKEN)`; None for anything else."""
    scheme, _, value = (authorization or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        username, colon, token = base64.b64decode(value, validate=True).partition(b":")
    except binascii.Error:
        return None
    return token if colon and username == USERNAME.encode() else None


def _broker_head(
    forward: Forward, source: Source, request_id: str, asked: RequestHead | None
) -> bytes:
    """The request to the broker, every byte of it from constants and parsed values."""
    if asked is None:
        raise ValueError("a git request has a head")
    request = forward.request
    headers = [
        (b"Host", b"gitmoat"),
        (b"Gitmoat-Request-Id", request_id.encode("ascii")),
        (b"Gitmoat-Tier", source.tier.value.encode("ascii")),
        *headers_of(request),
        *framing_headers(asked.framing),
    ]
    target = target_of(request, b"/git/", forward.upstream.name.encode("ascii"))
    return format_request(method_of(request), target, headers)


def _answer(forward: Forward, source: Source, head: ResponseHead) -> Answered | Deny:
    """The head the sandbox sees, rebuilt; an answer that is none of ours is not shown."""
    try:
        content_type, after = head.header(b"content-type"), head.header(b"retry-after")
    except Malformed:
        return _NO_ANSWER
    if head.status == 200 and content_type == response_type(forward.request):
        return Answered(200, ((b"Content-Type", content_type), (b"Cache-Control", b"no-cache")))
    if head.status in _REFUSALS and content_type == b"text/plain":
        headers = _PLAIN
        if head.status in _RETRY and after is not None and after.isdigit() and len(after) <= 6:
            headers = (*headers, (b"Retry-After", after))
        return Answered(_shown(head.status, source.tier), headers, head.status in _CLOSING)
    return evolve(_NO_ANSWER, close=head.status in _CLOSING)


def _shown(status: int, tier: Tier) -> int:
    # Without a token there is nothing to ask git for again: at a 401 it would only say that it
    # cannot read a user name, and hide the reason.
    return 502 if status == 401 and tier is Tier.UNTRUSTED else status


def _tries(forward: Forward, cause: Cause) -> int:
    """A broker that restarts leaves dead links behind, and closes others in order.

    What it has not taken it cannot have done. When that is not known a push is not sent again;
    a fetch is, once. A broker that said nothing for so long would not be quicker now.
    """
    if cause is Cause.NOT_TAKEN:
        return 4
    if cause is Cause.NO_ANSWER or isinstance(forward.request, Push):
        return 1
    return 2


# What is said in the shape git shows: text/plain lines, an ERR packet, LFS's JSON, a 401.


def _refuse(refused: Deny | Challenge, told: Told) -> Reply:
    if isinstance(refused, Challenge):
        return _challenge(told)
    lines = refusal_lines(refused.code, told.request_id, told.policy, told.tier, told.braked)
    if refused.code == "G102":
        return Reply(refused.status, _LFS, _lfs(lines))
    if refused.status == 200:
        return Reply(200, _FETCHED, refuse_fetch("\n".join(lines)))
    wait = refused.retry_after
    after = ((b"Retry-After", b"%d" % wait),) if wait else ()
    return Reply(refused.status, (*_PLAIN, *after), _text(lines), refused.close)


def _challenge(told: Told) -> Reply:
    """Git asks the credential helper at the first 401 and shows the text of the second."""
    code = CODES["H104"]
    lines = [f"gitmoat: {code.text} ({code.id})", f"request id: {told.request_id}"]
    return Reply(401, _CHALLENGE, _text(lines))


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii", "replace")


def _lfs(lines: Sequence[str]) -> bytes:
    return json.dumps({"message": " ".join(lines)}).encode("ascii")


def _report(refused: Deny | Challenge, source: Source, request_id: str | None) -> Report:
    code = "H104" if isinstance(refused, Challenge) else refused.code
    return Report(
        event=Event.GIT_REFUSED,
        uid=source.uid,
        repo=refused.subject,
        code=code,
        req=request_id,
    )


GIT: Final = Kind[Asked, Forward](
    name="git",
    listeners=frozenset({"helper_git", "untrusted_git"}),
    tiers=frozenset(Tier),
    body=Stream(keep=KEPT),
    share=lambda tier: Share.TRUSTED if tier is Tier.HELPER else Share.UNTRUSTED,
    classify=_classify,
    decide=_decide,
    opens=lambda asked: isinstance(asked.request, Advertise),
    head=_broker_head,
    answer=_answer,
    tries=_tries,
    refuse=_refuse,
    report=_report,
    subject=lambda forward: None,
    too_often=Deny("G303", 429),
    unreachable=Deny("B101", 502, ours=False),
    malformed=Deny(MALFORMED, 400, close=True),
    queues=True,
    lasts=False,  # the broker cuts what a policy does not allow any more
)
