"""Whether a credential request names a repository the helper may use."""

from __future__ import annotations

from typing import Final

from credential_helper.gitcredential import Request
from gitmoat.wire.git.repository_name import parse_place, parse_repository
from gitmoat.wire.malformed import Malformed
from netpolicy.policy import Tier
from sidecar.credential.tokens import USERNAME
from sidecar.kind import Scope
from sidecar.kinds.git import Located, locate

HOST: Final = "127.0.0.1:418"


def repository_asked(scope: Scope, request: Request) -> Located | None:
    """The repository of `path=HOST/PATH`; None for one that is unknown, forbidden or misspelt."""
    if request.host != HOST or request.username not in (None, USERNAME):
        return None
    place, _, path = request.path.encode("ascii").partition(b"/")
    try:
        return locate(scope, Tier.HELPER, parse_place(place), parse_repository(path))
    except Malformed:
        return None
