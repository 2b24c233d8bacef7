"""One configuration in force: for each upstream its place, its trust and its credential.

A reload makes a whole new one and swaps it in; requests under way keep the one they began with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from broker.config.settings import AppProvider, BrokerConfig, FileProvider, UpstreamConfig
from broker.config.tree import Tree
from broker.credentials.providers.credential import Provider
from broker.credentials.providers.file import FileCredentials
from broker.credentials.providers.github_app import read_app_key
from broker.credentials.providers.making import Maker
from broker.errors import Misconfigured
from broker.upstream.other_hosts import OtherHosts
from broker.upstream.resolving import Resolver, ServerResolver, SystemResolver
from broker.upstream.route import Route, server_route, trusting
from gitmoat.fault import Fault
from netpolicy.upstreams import Upstream, UpstreamTable


@frozen(eq=False)
class Server:
    """A git server: which URLs mean it, how it is reached, who gives its credentials."""

    upstream: Upstream
    config: UpstreamConfig
    provider: Provider
    route: Route


@frozen
class Routes:
    config: BrokerConfig
    table: UpstreamTable
    by_upstream: Mapping[str, Server]
    providers: Mapping[str, Provider]
    hosts: Mapping[bytes, str]
    other_hosts: OtherHosts


def check_files(config: BrokerConfig, tree: Tree, ids: tuple[int, int]) -> None:
    """Reads every credential file once, so that a bad one is found now and not at a push."""
    for provider in config.providers.values():
        match provider:
            case FileProvider(username=username, password_file=password_file):
                FileCredentials(tree, password_file, username, *ids).credential()
            case AppProvider():
                read_app_key(tree, provider.private_key_file, ids)


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
        trusting(upstream, upstream.address.host)


def _other_hosts(config: BrokerConfig, reactor: Any, system: SystemResolver) -> OtherHosts:
    egress = config.egress
    resolver: Resolver = system
    if egress.resolvers:
        resolver = ServerResolver(reactor, egress.resolvers)
    return OtherHosts(reactor, resolver, config.timeouts.connect, egress.proxy)


def make_routes(config: BrokerConfig, maker: Maker, system: SystemResolver) -> Routes:
    """`system` has threads, and outlives routes."""
    table = _table(config)
    providers: dict[str, Provider] = {}
    for name, one in config.providers.items():
        providers[name] = maker.provider(name, one, providers.__getitem__)
    servers = {
        one.name: _server(one, config.upstreams[one.name], providers) for one in table.upstreams
    }
    hosts = {key: name for name, host in config.hosts.items() for key in host.keys}
    other_hosts = _other_hosts(config, maker.reactor, system)
    return Routes(config, table, servers, providers, hosts, other_hosts)


def _server(upstream: Upstream, own: UpstreamConfig, providers: Mapping[str, Provider]) -> Server:
    wanted = None if own.proxy is None else own.proxy.provider
    proxy = None if wanted is None else providers[wanted]
    return Server(upstream, own, providers[own.provider], server_route(own, own.address, proxy))


@define(eq=False)
class CurrentRoutes:
    """The routes in force, and how to replace them."""

    now: Routes
    _load: Callable[[], Routes]
    _changed: list[Callable[[], None]] = field(factory=list, init=False)

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed.append(callback)

    def reload(self) -> Routes:
        """Parses everything, then swaps; on any Fault the old routes stay."""
        fresh = self._load()
        _refuse_restart(self.now.config, fresh.config)
        self.now = fresh
        for callback in self._changed:
            callback()
        return fresh


def _refuse_restart(old: BrokerConfig, new: BrokerConfig) -> None:
    for key in (
        "listen", "uid", "gid", "key_file", "store", "timeouts", "limits", "audit", "metrics",
    ):  # fmt: skip
        if getattr(old, key) != getattr(new, key):
            what = "this change needs a restart"
            fix = "`hostctl restart`, or take it back"
            raise Fault("B104", what, f"broker.toml: {key} has changed", fix)
