"""The only place where an upstream secret becomes header bytes."""

from __future__ import annotations

import base64

import jwt

from broker.config.values import Address
from broker.credentials.providers.credential import Credential
from gitmoat.identity.secret import Secret
from gitmoat.wire.git.smarthttp import GitRequest, headers_of, method_of, target_of
from gitmoat.wire.http.framing import Framing, Length, framing_headers
from gitmoat.wire.http.heads import format_request

# Some servers answer only what looks like git.
_AGENT = b"git/2.39 (gitmoat)"
_API_AGENT = b"gitmoat"
_API_VERSION = b"2022-11-28"
_KINDS = {
    b"ghp_": "GitHub classic token",
    b"github_pat_": "GitHub fine-grained token",
    b"gho_": "GitHub login",
    b"ghu_": "GitHub user token of an App",
    b"ghs_": "GitHub installation token",
    b"glpat-": "GitLab access token",
    b"gldt-": "GitLab deploy token",
}


def upstream_head(
    request: GitRequest, authority: str, credential: Credential, framing: Framing
) -> bytes:
    """A fresh head, from constants and the typed request; nothing that arrived is copied."""
    headers = [
        (b"Host", authority.encode("ascii")),
        (b"User-Agent", _AGENT),
        *headers_of(request),
        *framing_headers(framing),
        (b"Authorization", _basic(credential)),
    ]
    return format_request(method_of(request), target_of(request, b"/", b""), headers)


def connect_head(address: Address, credential: Credential | None) -> bytes:
    """What asks a proxy for a tunnel (RFC 9110, section 9.3.6)."""
    place = str(address).encode("ascii")
    lines = [b"CONNECT " + place + b" HTTP/1.1", b"Host: " + place]
    if credential is not None:
        lines.append(b"Proxy-Authorization: " + _basic(credential))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def api_head(target: str, address: Address, token: Secret, length: int) -> bytes:
    """A POST of JSON to GitHub's API, in the name of an App."""
    headers = [
        (b"Host", address.authority.encode("ascii")),
        (b"User-Agent", _API_AGENT),
        (b"Accept", b"application/vnd.github+json"),
        (b"X-GitHub-Api-Version", _API_VERSION),
        (b"Content-Type", b"application/json"),
        *framing_headers(Length(length)),
        (b"Authorization", b"Bearer " + token.expose()),
    ]
    return format_request(b"POST", target.encode("ascii"), headers)


def app_token(key: Secret, app: str, now: int) -> Secret | None:
    """What an App proves itself with, for nine minutes; None when `key` is not an RSA key.

    A minute back: GitHub refuses what was issued in its future. It takes ten minutes at most.
    """
    claims = {"iat": now - 60, "exp": now + 540, "iss": app}
    try:
        return Secret(jwt.encode(claims, key.expose(), algorithm="RS256").encode("ascii"))
    except (ValueError, TypeError, jwt.PyJWTError):
        return None


def _basic(credential: Credential) -> bytes:
    pair = credential.username.encode("ascii") + b":" + credential.password.expose()
    return b"Basic " + base64.b64encode(pair)


def token_kind(password: Secret) -> str:
    """What its first letters say of a token; nothing of it is told but that."""
    value = password.expose()
    return next((kind for start, kind in _KINDS.items() if value.startswith(start)), "")
