"""Tokens of a GitHub App's installation: one for each repository and kind of use, none wider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.python.failure import Failure

from broker.config.settings import AppProvider, UpstreamConfig
from broker.config.tree import Tree
from broker.config.values import Api
from broker.credentials.injection import api_head, app_token
from broker.credentials.providers.cache import Cache, Fresh
from broker.credentials.providers.credential import (
    Credential,
    CredentialRequest,
    Provider,
    unavailable,
)
from broker.credentials.providers.file import is_private
from broker.credentials.providers.github_api import (
    Denied,
    Limited,
    Minted,
    Outcome,
    Skewed,
    api_of,
    mint_body,
    permissions_for,
    read_outcome,
    repository_name,
)
from broker.errors import Unavailable
from broker.sessions.running import AdminTask
from broker.upstream.dialler import Dialler
from broker.upstream.route import Route, server_route
from gitmoat.identity.secret import Secret
from gitmoat.limits.buckets import KeyedBuckets
from gitmoat.net.http.whole_answer import NoAnswer

_KEY_LIMIT = 64 * 1024
_ANSWER_LIMIT = 1 << 20
_TIMEOUT = 15.0
# What GitHub denies it counts all the same: one session must not use up the App's own rate.
DENIED_PER_MINUTE = 20
# Of all who wait for the same token: the first may leave, and the others still get it.
_MINTING = AdminTask("minting a token")


def read_app_key(tree: Tree, path: Path, ids: tuple[int, int]) -> Secret:
    """Unavailable when it is not there, or open to others."""
    fix = f"chown {ids[0]}:{ids[1]} and chmod 0400, in a directory that uid may enter"
    try:
        data, status = tree.read(path, _KEY_LIMIT)
    except OSError as error:
        raise unavailable(f"{path}: {error.strerror}", fix) from None
    if not is_private(status, *ids):
        raise unavailable(f"{path} has an owner or mode that is too open", fix)
    return Secret(data)


@define(eq=False)
class AppCredentials:
    _reactor: Any
    _dialler: Dialler
    _config: AppProvider
    _key: Callable[[], Secret]  # read for every token: rotation is `mv`
    _now: Callable[[], float]
    _wall: Callable[[], float]
    _proxies: Callable[[str], Provider]
    _cache: Cache
    _skew: float = field(init=False, default=0.0)
    _quiet_until: float = field(init=False, default=0.0)
    _denied: KeyedBuckets = field(
        init=False, factory=lambda: KeyedBuckets(DENIED_PER_MINUTE / 60, DENIED_PER_MINUTE)
    )

    def credential(self, request: CredentialRequest) -> Deferred[Credential]:
        return self._cache.get(_key(request), lambda: self._bounded(request))

    def refused(self, request: CredentialRequest, credential: Credential) -> bool:
        """A token can be revoked before its time; another is minted, once."""
        return self._cache.drop(_key(request), credential)

    def _bounded(self, request: CredentialRequest) -> Deferred[Fresh]:
        minting = Deferred.fromCoroutine(self._mint(request))
        minting.addTimeout(_TIMEOUT, self._reactor)
        return minting.addErrback(_too_slow)

    async def _mint(self, request: CredentialRequest) -> Fresh:
        if repository_name(request.repository) is None:
            raise unavailable("the path is not OWNER/NAME", "a GitHub App serves GitHub only")
        denials = self._denied.bucket(request.permit.session)
        if denials.wait(self._now()):
            raise unavailable("too many tokens were asked for that GitHub does not give", "wait")
        outcome = await self._ask(request)
        if isinstance(outcome, Skewed):
            self._skew += outcome.seconds
            outcome = await self._ask(request)
        if isinstance(outcome, Denied):
            denials.take(self._now())
        return self._used(outcome)

    def _used(self, outcome: Outcome) -> Fresh:
        match outcome:
            case Minted(credential, seconds):
                return Fresh(credential, seconds)
            case Limited(seconds):
                self._quiet_until = self._now() + seconds
                raise self._limited()
            case Denied(why, fix):
                raise unavailable(why, fix)
            case Skewed():
                fix = "set this machine's clock"
                raise unavailable("GitHub does not accept the time of our requests", fix)
            case _:
                assert_never(outcome)

    def _limited(self) -> Unavailable:
        left = int(self._quiet_until - self._now()) + 1
        return unavailable(f"GitHub's rate limit; again in {left} s", "wait, or ask for less")

    async def _ask(self, request: CredentialRequest) -> Outcome:
        if self._now() < self._quiet_until:
            raise self._limited()
        clock = self._wall() + self._skew
        token = app_token(self._key(), self._config.app_id, int(clock))
        if token is None:
            path = self._config.private_key_file
            raise unavailable(f"{path} is not an RSA private key in PEM", "download it again")
        api = api_of(request.upstream, self._config.api_url)
        target = f"{api.prefix}/app/installations/{self._config.installation_id}/access_tokens"
        body = mint_body(request)
        head = api_head(target, api.address, token, len(body))
        route = self._route(request.upstream, api)
        try:
            got, data = await self._dialler.whole(route, _MINTING, head, body, _ANSWER_LIMIT)
        except NoAnswer as problem:
            raise unavailable(f"GitHub's API: {problem}", "try again") from None
        return read_outcome(got, data, request, clock)

    def _route(self, config: UpstreamConfig, api: Api) -> Route:
        """As the upstream itself is reached: its authorities, its proxy, its times."""
        wanted = None if config.proxy is None else config.proxy.provider
        return server_route(config, api.address, None if wanted is None else self._proxies(wanted))


def _key(request: CredentialRequest) -> tuple[object, ...]:
    return (
        request.upstream.name,
        request.repository.lower(),
        tuple(permissions_for(request).items()),
    )


def _too_slow(failure: Failure) -> Failure:
    if failure.check(TimedOut) is None:
        return failure
    return Failure(unavailable("GitHub's API does not answer in time", "try again"))
