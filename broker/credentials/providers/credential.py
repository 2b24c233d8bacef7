"""What a provider gives: a credential for one upstream request."""

from __future__ import annotations

import re
from typing import Protocol

from attrs import frozen
from twisted.internet.defer import Deferred, fail, succeed

from broker.config.settings import UpstreamConfig
from broker.errors import Unavailable
from broker.sessions.running import Permit
from gitmoat.identity.secret import Secret

_PASSWORD = re.compile(rb"[!-~]{1,16384}")


@frozen
class Credential:
    """`scope` and `expires` (wall seconds) are for people, where the provider knows them."""

    username: str
    password: Secret
    scope: str = ""
    expires: int | None = None

    def same_as(self, other: Credential) -> bool:
        return self.username == other.username and self.password.same_as(other.password)


@frozen
class CredentialRequest:
    """What one request needs a credential for: no more than this should be asked for.

    `permit`: what it is taken for ends with its session.
    """

    permit: Permit
    upstream: UpstreamConfig
    repository: str
    write: bool
    workflows: bool = False


class Provider(Protocol):
    def credential(self, request: CredentialRequest) -> Deferred[Credential]:
        """An answer for one request, in bounded time; Unavailable (U105) when there is none."""

    def refused(self, request: CredentialRequest, credential: Credential) -> bool:
        """The upstream did not take it. Whether asking once more may give another."""


class Source(Protocol):
    def credential(self) -> Credential: ...


@frozen
class AtOnce:
    """A provider whose credential is read, whatever it is for, each time it is used."""

    source: Source

    def credential(self, request: CredentialRequest) -> Deferred[Credential]:
        try:
            return succeed(self.source.credential())
        except Unavailable as error:
            return fail(error)

    def refused(self, request: CredentialRequest, credential: Credential) -> bool:
        return False


@frozen
class Permitted:
    """In front of every provider: nothing is taken for what was cut or has ended."""

    provider: Provider

    def credential(self, request: CredentialRequest) -> Deferred[Credential]:
        try:
            request.permit.check()
        except Unavailable as error:
            return fail(error)
        return self.provider.credential(request)

    def refused(self, request: CredentialRequest, credential: Credential) -> bool:
        return self.provider.refused(request, credential)


def parse_password(raw: bytes) -> Secret | None:
    """One line of printable ASCII, as tokens are; None for anything else."""
    line = raw.removesuffix(b"\n").removesuffix(b"\r")  # files from another world end in CRLF
    return Secret(line) if _PASSWORD.fullmatch(line) else None


def unavailable(why: str, fix: str) -> Unavailable:
    return Unavailable("U105", "no credential is available for the git server", why, fix)
