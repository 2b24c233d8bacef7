"""The only place where an upstream secret becomes header bytes."""

from __future__ import annotations

import base64

from broker.providers.credential import Credential
from gitwire.framing import Framing, framing_headers
from gitwire.http import format_request
from gitwire.smarthttp import GitRequest, headers_of, method_of, target_of

# Some servers answer only what looks like git.
_AGENT = b"git/2.39 (gitmoat)"


def upstream_head(
    request: GitRequest, authority: str, credential: Credential, framing: Framing
) -> bytes:
    """A fresh head, from constants and the typed request; nothing that arrived is copied."""
    pair = credential.username.encode("ascii") + b":" + credential.password.expose()
    headers = [
        (b"Host", authority.encode("ascii")),
        (b"User-Agent", _AGENT),
        *headers_of(request),
        *framing_headers(framing),
        (b"Authorization", b"Basic " + base64.b64encode(pair)),
    ]
    return format_request(method_of(request), target_of(request, b"/", b""), headers)
