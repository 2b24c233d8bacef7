"""One configuration in force: for each upstream its place, its trust and its credential.

A reload makes a whole new one and swaps it in; requests under way keep the one they began with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from attrs import define, field, frozen
from OpenSSL.crypto import Error as CryptoError
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import (
    Certificate,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)

from broker.errors import Misconfigured, Problem
from broker.files import Tree
from broker.providers.credential import Provider
from broker.providers.file import FileCredentials
from broker.providers.vault import VaultCredentials
from broker.settings import (
    BrokerConfig,
    FileProvider,
    ProviderConfig,
    UpstreamConfig,
    VaultProvider,
)
from broker.vault import Vault
from netpolicy.upstreams import Upstream, UpstreamTable


@frozen
class Route:
    upstream: Upstream
    config: UpstreamConfig
    provider: Provider
    tls: IOpenSSLClientConnectionCreator


@frozen
class Routes:
    config: BrokerConfig
    table: UpstreamTable
    by_upstream: Mapping[str, Route]
    providers: Mapping[str, Provider]
    hosts: Mapping[bytes, str]


def _provider(
    name: str, config: ProviderConfig, tree: Tree, vault: Vault, ids: tuple[int, int]
) -> Provider:
    match config:
        case FileProvider(username, password_file):
            return FileCredentials(tree, password_file, username, *ids)
        case VaultProvider():
            return VaultCredentials(vault, name)
        case _:
            assert_never(config)


def check_files(config: BrokerConfig, tree: Tree, ids: tuple[int, int]) -> None:
    """Reads every credential file once, so that a bad one is found now and not at a push."""
    for provider in config.providers.values():
        if isinstance(provider, FileProvider):
            FileCredentials(tree, provider.password_file, provider.username, *ids).credential()


def _tls(config: UpstreamConfig) -> IOpenSSLClientConnectionCreator:
    """Certificate and name are verified; TLS 1.2 is the least we take."""
    if not config.authorities:
        return optionsForClientTLS(config.address.host, trustRoot=platformTrust())
    try:
        roots = [Certificate.loadPEM(pem) for pem in config.authorities]
    except (CryptoError, ValueError):
        why = "holds a certificate that cannot be read"
        key = f"upstream.{config.name}.ca_file"
        raise Misconfigured("broker.toml", key, why, "give a PEM file") from None
    return optionsForClientTLS(config.address.host, trustRoot=trustRootFromCertificates(roots))


def _table(config: BrokerConfig) -> UpstreamTable:
    try:
        return UpstreamTable(
            tuple(
                Upstream(one.name, (one.authority, *one.also), one.case_insensitive)
                for one in config.upstreams.values()
            ),
            config.timeouts.idle,
        )
    except ValueError as error:
        raise Misconfigured("broker.toml", "upstream", str(error), "correct the hosts") from None


def check_upstreams(config: BrokerConfig) -> None:
    """Misconfigured when `make_routes` would be."""
    _table(config)
    for upstream in config.upstreams.values():
        _tls(upstream)


def make_routes(config: BrokerConfig, tree: Tree, vault: Vault, ids: tuple[int, int]) -> Routes:
    table = _table(config)
    providers = {
        name: _provider(name, one, tree, vault, ids) for name, one in config.providers.items()
    }
    routes = {
        one.name: Route(one, own := config.upstreams[one.name], providers[own.provider], _tls(own))
        for one in table.upstreams
    }
    return Routes(
        config, table, routes, providers, {key: name for name, key in config.hosts.items()}
    )


@define(eq=False)
class CurrentRoutes:
    """The routes in force, and how to replace them."""

    now: Routes
    _load: Callable[[], Routes]
    _changed: list[Callable[[], None]] = field(factory=list, init=False)

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed.append(callback)

    def reload(self) -> Routes:
        """Parses everything, then swaps; on any Problem the old routes stay."""
        fresh = self._load()
        _refuse_restart(self.now.config, fresh.config)
        self.now = fresh
        for callback in self._changed:
            callback()
        return fresh


def _refuse_restart(old: BrokerConfig, new: BrokerConfig) -> None:
    for key in ("listen", "uid", "gid", "store", "timeouts", "limits"):
        if getattr(old, key) != getattr(new, key):
            what = "this change needs a restart"
            fix = "`hostctl down` and `hostctl up`, or take it back"
            raise Problem("B104", what, f"broker.toml: {key} has changed", fix)
