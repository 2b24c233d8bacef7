"""One authenticated `info/refs`, to see whether a credential is good for a repository."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import define

from broker.credentials.injection import upstream_head
from broker.credentials.providers.credential import CredentialRequest
from broker.credentials.providers.judging import expiry_of, scope_of, warnings_of
from broker.errors import Unavailable
from broker.kinds.git_responses import judge, moved_to
from broker.sessions.running import AdminTask
from broker.upstream.dialler import Dialler
from broker.upstream.routes import Routes, Server
from gitmoat.codes import CODES
from gitmoat.fault import Fault
from gitmoat.net.http.whole_answer import NoAnswer
from gitmoat.wire.git.repository_name import Place, RepositoryPath
from gitmoat.wire.git.smarthttp import Advertise, Service
from gitmoat.wire.http.heads import NoBody, ResponseHead
from netpolicy.upstreams import without_userinfo

_LIMIT = 8 << 20
_CHECK = AdminTask("checking a credential")


@define(eq=False)
class CredentialCheck:
    """Reads only: what a credential may write is not tried."""

    _routes: Routes
    _dialler: Dialler
    _name: str
    _wall: Callable[[], float] = time.time

    async def run(self, place: str) -> dict[str, Any]:
        server, repository = self._find(place)
        wanted = CredentialRequest(_CHECK, server.config, repository.text, write=False)
        try:
            credential = await server.provider.credential(wanted)
            asked = Advertise(Place(server.upstream.name), repository, Service.UPLOAD_PACK, 2)
            request = server.config.spelled(asked)
            head = upstream_head(request, server.config.authority, credential, NoBody())
            got = await self._ask(server, head)
        except Unavailable as error:
            raise Fault(error.code, error.what, error.why, error.fix) from None
        code = judge(got, request, _LIMIT)
        moved = moved_to(got, request, server.upstream) if code == "U103" else None
        code = code if moved is None else "U111"
        if code == "U102" and got.status == 401:
            server.provider.refused(wanted, credential)
        return {
            "name": self._name,
            "upstream": server.upstream.name,
            "repository": repository.text,
            "status": got.status,
            "code": code,
            "what": "accepted" if code is None else _words(code, moved),
            "scope": scope_of(credential, got),
            "expires": expiry_of(credential, got),
            "warnings": warnings_of(credential, got, self._wall()),
        }

    async def _ask(self, server: Server, head: bytes) -> ResponseHead:
        try:
            got, _ = await self._dialler.whole(server.route, _CHECK, head, b"", _LIMIT)
        except NoAnswer as problem:
            raise Unavailable("U104", CODES["U104"].text, str(problem)) from None
        return got

    def _find(self, place: str) -> tuple[Server, RepositoryPath]:
        found = self._routes.table.locate(place)
        if found is None:
            what = f"{without_userinfo(place)[:200]!r} is at no upstream that is configured"
            raise Fault("U107", what, "", CODES["U107"].fix)
        upstream, repository = found
        server = self._routes.by_upstream[upstream.name]
        if server.config.provider != self._name:
            what = f"upstream {server.upstream.name} does not use this credential"
            fix = f"it uses {server.config.provider}; name a repository of another upstream"
            raise Fault("U107", what, "", fix)
        return server, repository


def _words(code: str, moved: tuple[RepositoryPath, bool] | None) -> str:
    # The sandbox is told of a missing repository as of a forbidden one; the admin is not.
    if code == "G101":
        return "no such repository for it"
    if moved is None:
        return CODES[code].text
    repository, dot_git = moved
    return f"{CODES[code].text}: it is {repository.text}{'.git' if dot_git else ''} now"
