"""What becomes of one request from the sandbox: decided here, done in `git_listener`.

The order is the point: shape, then scope, then token. Somebody who may not see a repository gets
the same 404 whether it exists, is forbidden, or is misspelt, and is never asked for a token.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final, assert_never

from attrs import frozen

from gitwire.errors import Malformed
from gitwire.http import Framing, RequestHead, ResponseHead, format_request, framing_headers
from gitwire.repository import Place, RepositoryPath
from gitwire.smarthttp import (
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
from netpolicy.decision import Deny, decide_fetch, decide_repository
from netpolicy.policy import Policy, Tier
from netpolicy.upstreams import Upstream
from sidecar.kind import Scope
from sidecar.tokens import USERNAME, ScopedRepository, scoped

Headers = tuple[tuple[bytes, bytes], ...]
Accepts = Callable[[ScopedRepository, bytes], bool]

NOT_FOUND: Final = "G101"
MALFORMED: Final = "G104"
_PLAIN: Final = b"text/plain"
# What the broker may say besides 200; anything else is not an answer of ours.
_REFUSALS: Final = frozenset({400, 401, 404, 413, 429, 502, 503})
# It found the body malformed: nothing behind that is read as a request.
CLOSING: Final = frozenset({400, 413})
_RETRY: Final = frozenset({429, 503})


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
class Forward:
    """Send it to the broker, under the upstream's own name."""

    upstream: Upstream
    request: GitRequest


@frozen
class Refuse:
    """Answer it here. `repository` is for the report, and None where none was understood."""

    code: str
    status: int
    repository: str | None = None

    @property
    def close(self) -> bool:
        """What was misread once is not read on: its rest could be a request of its own."""
        return self.code == MALFORMED


@frozen
class Challenge:
    """Ask for a token. `presented`: one was shown, and it is wrong or has ended."""

    repository: str
    presented: bool


Decision = Forward | Refuse | Challenge


def locate(scope: Scope, tier: Tier, place: Place, repository: RepositoryPath) -> Located | None:
    """The repository as this tier sees it: None for unknown and forbidden alike."""
    upstream = scope.upstreams.by_place(place)
    if upstream is None:
        return None
    fold = upstream.case_insensitive
    verdict = decide_repository(scope.policy, upstream.name, repository, tier, fold)
    return None if isinstance(verdict, Deny) else Located(upstream, repository)


def decide(scope: Scope, tier: Tier, head: RequestHead, accepts: Accepts) -> Decision:
    """`accepts` says whether a token is good for a repository; it is asked last."""
    try:
        request = classify(head, b"/")
        authorization = head.header(b"authorization")
    except Malformed as error:
        return _malformed(error)
    match request:
        case LfsRequest():
            return Refuse("G102", 501)
        case Unserved():
            return Refuse("G103", 404)
        case Advertise() | Fetch() | Push():
            return _decide_git(scope, tier, request, authorization, accepts)
        case _:
            assert_never(request)


def _malformed(error: Malformed) -> Refuse:
    return Refuse(NOT_FOUND if error.status == 404 else MALFORMED, error.status)


def _decide_git(
    scope: Scope, tier: Tier, request: GitRequest, authorization: bytes | None, accepts: Accepts
) -> Decision:
    located = locate(scope, tier, request.place, request.repository)
    if located is None:
        return Refuse(NOT_FOUND, 404, _name_asked(scope, request))
    name = located.name
    if tier is Tier.HELPER:
        token = token_in(authorization)
        if token is None or not accepts(located.scoped, token):
            return Challenge(name, authorization is not None)
    if _fetch_refused(scope.policy, located, tier, request):
        # A POST is refused inside a 200: git shows nothing of an error status there.
        return Refuse("G105", 200 if isinstance(request, Fetch) else 404, name)
    return Forward(located.upstream, request)


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
    return isinstance(verdict, Deny)


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


def broker_head(forward: Forward, tier: Tier, request_id: str, framing: Framing) -> bytes:
    """The request to the broker, every byte of it from constants and parsed values."""
    request = forward.request
    headers = [
        (b"Host", b"gitmoat"),
        (b"Gitmoat-Request-Id", request_id.encode("ascii")),
        (b"Gitmoat-Tier", tier.value.encode("ascii")),
        *headers_of(request),
        *framing_headers(framing),
    ]
    target = target_of(request, b"/git/", forward.upstream.name.encode("ascii"))
    return format_request(method_of(request), target, headers)


@frozen
class Relayed:
    """Pass the broker's body on, under this head."""

    status: int
    headers: Headers


def answer(request: GitRequest, tier: Tier, head: ResponseHead) -> Relayed | Refuse:
    """The head the sandbox sees, rebuilt; an answer that is none of ours is not shown."""
    content_type = head.header(b"content-type")
    if head.status == 200 and content_type == response_type(request):
        return Relayed(200, ((b"Content-Type", content_type), (b"Cache-Control", b"no-cache")))
    if head.status in _REFUSALS and content_type == _PLAIN:
        return Relayed(_shown_status(head.status, tier), _refusal_headers(head))
    return Refuse("U104", 502)


def _shown_status(status: int, tier: Tier) -> int:
    # Without a token there is nothing to ask git for again: at a 401 it would only say that it
    # cannot read a user name, and hide the reason.
    return 502 if status == 401 and tier is Tier.UNTRUSTED else status


def _refusal_headers(head: ResponseHead) -> Headers:
    headers: Headers = ((b"Content-Type", _PLAIN),)
    after = head.header(b"retry-after")
    if head.status in _RETRY and after is not None and after.isdigit() and len(after) <= 6:
        return (*headers, (b"Retry-After", after))
    return headers
