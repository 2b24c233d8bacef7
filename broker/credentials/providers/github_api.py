"""What we ask GitHub's API for an installation token, and what its answer means. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from attrs import frozen

from broker.config.settings import UpstreamConfig
from broker.config.values import Address, Api
from broker.credentials.providers.credential import Credential, CredentialRequest, parse_password
from gitmoat.wire.http.heads import ResponseHead
from gitmoat.wire.malformed import Malformed

# GitHub and GitHub Enterprise take a token as the password of any user; this is their own name.
_USERNAME = "x-access-token"
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/([A-Za-z0-9._-]+)")
_LEVELS = {"read": 1, "write": 2}
_EARLY = 300.0  # a transfer that begins at the last moment needs its token for a while
_LONGEST = 3600.0
_SKEW = 30.0
_DEFAULT_WAIT = 60


@frozen
class Minted:
    credential: Credential
    seconds: float  # how long it may be given out again


@frozen
class Denied:
    why: str
    fix: str


@frozen
class Limited:
    """GitHub wants to be left alone for so many seconds."""

    seconds: int


@frozen
class Skewed:
    """Our clock is not GitHub's: seconds to be added to ours."""

    seconds: float


Outcome = Minted | Denied | Limited | Skewed
_NOT_UNDERSTOOD = Denied("GitHub's answer is not understood", "check api_url")


def api_of(config: UpstreamConfig, given: Api | None) -> Api:
    """Where the API is: github.com's is a host of its own, an Enterprise server's is below it."""
    if given is not None:
        return given
    if config.address.host == "github.com":
        return Api(Address("api.github.com", 443), "")
    return Api(config.address, "/api/v3")


def repository_name(path: str) -> str | None:
    """GitHub narrows by the name within the installation's own account."""
    matched = _REPOSITORY.fullmatch(path)
    return matched[1] if matched else None


def permissions_for(request: CredentialRequest) -> dict[str, str]:
    """The least that will do; `workflows` only where the policy says so."""
    asked = {"contents": "write" if request.write else "read", "metadata": "read"}
    return asked | {"workflows": "write"} if request.workflows else asked


def mint_body(request: CredentialRequest) -> bytes:
    name = repository_name(request.repository)
    return json.dumps({"repositories": [name], "permissions": permissions_for(request)}).encode()


def server_time(head: ResponseHead) -> float | None:
    """Its Date, as seconds since the epoch."""
    given = head.header(b"date")
    try:
        return parsedate_to_datetime((given or b"").decode("ascii")).timestamp()
    except (ValueError, TypeError, UnicodeDecodeError):
        return None


def read_outcome(
    head: ResponseHead, body: bytes, request: CredentialRequest, clock: float
) -> Outcome:
    """`clock` is what we took GitHub's clock to be when we asked."""
    try:
        return _outcome(head, body, request, clock)
    except Malformed:  # a header that says two things
        return _NOT_UNDERSTOOD


def _outcome(head: ResponseHead, body: bytes, request: CredentialRequest, clock: float) -> Outcome:
    server = server_time(head)
    now = clock if server is None else server
    limited = _limited(head, now)
    if limited is not None:
        return limited
    match head.status:
        case 201:
            return _minted(body, request, now)
        case 401 if abs(now - clock) > _SKEW:
            return Skewed(now - clock)
        case _:
            return _denied(head.status)


def _limited(head: ResponseHead, now: float) -> Limited | None:
    if head.status not in (403, 429):
        return None
    after, reset = _number(head, b"retry-after"), _number(head, b"x-ratelimit-reset")
    if after is not None:
        return Limited(max(1, min(after, int(_LONGEST))))
    if head.header(b"x-ratelimit-remaining") == b"0" and reset is not None:
        return Limited(max(1, min(int(reset - now) + 1, int(_LONGEST))))
    return Limited(_DEFAULT_WAIT) if head.status == 429 else None


def _number(head: ResponseHead, name: bytes) -> int | None:
    value = head.header(name)
    return int(value) if value is not None and value.isdigit() and len(value) < 12 else None


def _denied(status: int) -> Denied:
    match status:
        case 401:
            fix = "check app_id and private_key_file, and this machine's clock"
            return Denied("GitHub does not accept the App's key", fix)
        case 404:
            fix = "check installation_id, and that the App is still installed"
            return Denied("GitHub knows no such installation of the App", fix)
        case 403 | 422:
            fix = "install the App on the repository, with the contents permission it needs"
            return Denied("the installation has not this repository or permission", fix)
        case _:
            return Denied(f"GitHub's API answered {status}", "try again; see githubstatus.com")


def _minted(body: bytes, request: CredentialRequest, now: float) -> Minted | Denied:
    fix = "report it: a token that is not narrowed as asked is not used"
    try:
        answer: dict[str, Any] = json.loads(body)
        password = parse_password(answer["token"].encode("ascii"))
        expires = _instant(answer["expires_at"])
        narrow = _is_narrow(answer, request)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _NOT_UNDERSTOOD
    if password is None:
        return _NOT_UNDERSTOOD
    if not narrow:
        return Denied("GitHub gave a token for more than was asked", fix)
    scope = f"{request.repository}: " + ", ".join(
        f"{name}={level}" for name, level in sorted(permissions_for(request).items())
    )
    credential = Credential(_USERNAME, password, scope, int(expires))
    return Minted(credential, max(0.0, min(expires - now, _LONGEST) - _EARLY))


def _instant(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_narrow(answer: Mapping[str, Any], request: CredentialRequest) -> bool:
    asked = permissions_for(request)
    granted = all(
        _LEVELS.get(level, 9) <= _LEVELS.get(asked.get(name, ""), 0)
        for name, level in answer["permissions"].items()
    )
    names = [one["full_name"].lower() for one in answer["repositories"]]
    return granted and names == [request.repository.lower()]
