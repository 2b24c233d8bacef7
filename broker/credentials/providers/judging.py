"""What can be said of a credential without showing it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from broker.credentials.injection import token_kind
from broker.credentials.providers.credential import Credential
from gitmoat.wire.http.heads import ResponseHead

_SOON = 7 * 86400
_WIDE = {
    "GitHub classic token": "reaches all that its owner can: use an App, or a fine-grained one",
    "GitHub login": "is a person's whole login: use an App for unattended work",
    "GitHub user token of an App": "acts as a person: use the App's installation instead",
}
_SCOPES = b"x-oauth-scopes"
_EXPIRY = b"github-authentication-token-expiration"


def scope_of(credential: Credential, head: ResponseHead | None) -> str:
    """What it is good for: as its provider, its server or its own form tells."""
    told = _header(head, _SCOPES)
    if credential.scope:
        return credential.scope
    kind = token_kind(credential.password)
    return f"{kind}: {told}" if kind and told else kind or told or "not known to us"


def expiry_of(credential: Credential, head: ResponseHead | None) -> int | None:
    if credential.expires is not None:
        return credential.expires
    text = _header(head, _EXPIRY).removesuffix(" UTC")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def warnings_of(credential: Credential, head: ResponseHead | None, wall: float) -> list[str]:
    found = [
        f"it {text}" for kind, text in _WIDE.items() if kind == token_kind(credential.password)
    ]
    expires = expiry_of(credential, head)
    if expires is None:
        found.append("it has no end that we know of: rotate it now and then")
    elif expires <= wall:
        found.append("it is past its end")
    elif expires - wall < _SOON and not credential.scope:
        found.append(f"it ends in {int((expires - wall) // 3600)} h")
    return found


def _header(head: ResponseHead | None, name: bytes) -> str:
    value = head.header(name) if head is not None else None
    return (value or b"").decode("ascii", "replace")[:200]
