"""The tables of broker.toml that the broker does not use as they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from broker.config.settings import (
    DEFAULT_UID,
    GIT_SUFFIX,
    AppProvider,
    BrokerLimits,
    Egress,
    FileProvider,
    HelperProvider,
    HostConfig,
    ProviderConfig,
    Proxy,
    Timeouts,
    UpstreamConfig,
    VaultProvider,
)
from broker.config.tree import Tree
from broker.config.values import (
    A_DURATION,
    DAY,
    HOST_NAME,
    LISTEN,
    LOOPBACK,
    PATH,
    PROXY,
    URL,
    Address,
    duration,
    named,
    octets,
)
from gitmoat.audit.journal import Sizes
from gitmoat.identity.keyfile import KeyMalformed, parse_public
from gitmoat.shape import (
    Misshapen,
    Shape,
    choice,
    collection,
    flag,
    key,
    number,
    optional,
    parsed,
    several,
    table,
    tagged,
    text,
)
from netpolicy.ceiling import ANY, allowed_kinds
from netpolicy.patterns.matchers import HostPattern, RepoPattern, parse_repo_pattern
from netpolicy.policy import Ceiling, EgressBound, GitBound
from netpolicy.rule_kinds import KINDS

_FILE_LIMIT = 1 << 20
_LARGEST_ID = 0xFFFFFFFE
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_A_PEM_FILE = "give the absolute path of a PEM file the broker's uid can read"
_ID = number(1, _LARGEST_ID)


# [upstream.NAME]


@frozen
class UpstreamTimeouts:
    """As the broker's own where nothing is said; those that sidecars count on are never longer."""

    connect: int | None = key(optional(duration(DAY)), None, hint=A_DURATION)
    idle: int | None = key(optional(duration(DAY)), None, hint=A_DURATION)
    operation: int | None = key(optional(duration(DAY)), None, hint=A_DURATION)

    def among(self, most: Timeouts, path: str) -> Timeouts:
        for name in ("idle", "operation"):
            if (getattr(self, name) or 0) > getattr(most, name):
                hint = f"raise timeouts.{name} of broker.toml first"
                raise Misshapen(f"{path}.{name}", "is longer than the broker's own", hint)
        return evolve(
            most,
            connect=self.connect or most.connect,
            idle=self.idle or most.idle,
            operation=self.operation or most.operation,
        )


@frozen
class UpstreamTable:
    url: Address = key(URL, hint='write url = "https://HOST[:PORT]"')
    also: tuple[str, ...] = key(several(HOST_NAME), ())
    ca_file: Path | None = key(optional(PATH), None)
    provider: str = key(text(), hint="name a [provider.NAME]")
    case_insensitive: bool = key(
        flag(), hint="say whether ACME/App and acme/app are one repository there: true for GitHub"
    )
    timeouts: UpstreamTimeouts = key(table(UpstreamTimeouts), UpstreamTimeouts())
    proxy: Address | None = key(
        optional(PROXY),
        None,
        hint="a user and password for it go into a [provider.NAME] and proxy_provider",
    )
    proxy_provider: str | None = key(optional(text()), None)
    git_suffix: str = key(
        choice(*GIT_SUFFIX),
        "keep",
        hint="what becomes of the .git behind a name before the server is asked",
    )

    def upstream(self, name: str, tree: Tree, most: Timeouts) -> UpstreamConfig:
        path = f"upstream.{name}"
        return UpstreamConfig(
            name=name,
            address=self.url,
            also=self.also,
            authorities=_authorities(self.ca_file, tree, f"{path}.ca_file"),
            provider=self.provider,
            case_insensitive=self.case_insensitive,
            timeouts=self.timeouts.among(most, f"{path}.timeouts"),
            proxy=self._proxy(f"{path}.proxy_provider"),
            git_suffix=self.git_suffix,
        )

    def _proxy(self, path: str) -> Proxy | None:
        if self.proxy is not None:
            return Proxy(self.proxy, self.proxy_provider)
        if self.proxy_provider is not None:
            raise Misshapen(path, "stands without a proxy", "add proxy, or remove it")
        return None


def _authorities(file: Path | None, tree: Tree, path: str) -> tuple[bytes, ...]:
    if file is None:
        return ()
    try:
        data, _ = tree.read(file, _FILE_LIMIT)
    except OSError as error:
        what = f"{file} cannot be read ({error.strerror})"
        raise Misshapen(path, what, _A_PEM_FILE) from None
    found = _PEM.findall(data)
    if not found:
        raise Misshapen(path, f"{file} holds no PEM certificate", _A_PEM_FILE)
    return tuple(one + b"\n" for one in found)


# [host.NAME]


def _host_keys(value: object, path: str) -> tuple[bytes, ...]:
    """One key, or two while the second takes the place of the first."""
    texts = value if isinstance(value, list) else [value]
    if not 0 < len(texts) <= 2:
        raise Misshapen(path, "is not one key, or two of them")
    try:
        keys = [parse_public(each if isinstance(each, str) else "") for each in texts]
    except KeyMalformed:
        raise Misshapen(path, "is not an Ed25519 public key") from None
    return tuple(dict.fromkeys(keys))


_KINDS = tuple(kind.name for kind in KINDS)
_LISTED = collection(choice(*_KINDS), least=1)


def _allowed(value: object, path: str) -> str | frozenset[str]:
    return ANY if value == ANY else _LISTED.read(value, path)


@frozen
class HostTable:
    allow: str | frozenset[str] | None = key(
        optional(Shape(_allowed)),
        None,
        hint=f'list kinds of rules, of {", ".join(_KINDS)}; or write allow = "any"',
    )
    repos: tuple[RepoPattern, ...] = key(several(parsed(parse_repo_pattern, str)), ())
    push: bool = key(flag(), True)
    hosts: tuple[HostPattern, ...] = key(several(parsed(HostPattern, str)), ())
    private: bool | None = key(optional(flag()), None)
    ttl: int | None = key(optional(duration(30 * DAY)), None, hint=A_DURATION)
    key: tuple[bytes, ...] = key(
        Shape(_host_keys),
        hint="paste the host's public key: 44 characters of base64, as `hostctl host ls` shows it",
    )

    def __attrs_post_init__(self) -> None:
        bounds = {
            "git": self.repos or not self.push,
            "egress": self.hosts or self.private is not None,
        }
        for kind, given in bounds.items():
            if given and kind not in allowed_kinds(self.allow):
                raise ValueError(f"bounds {kind} rules, which its `allow` does not list")

    def host(self) -> HostConfig:
        return HostConfig(self.key, self._ceiling())

    def _ceiling(self) -> Ceiling:
        private = self.allow in (None, ANY) if self.private is None else self.private
        bounds: dict[str, Any] = {kind.name: kind.bound() for kind in KINDS}
        bounds["git"] = GitBound(self.repos, self.push)
        bounds["egress"] = EgressBound(self.hosts, private)
        return Ceiling(**{name: bounds[name] for name in allowed_kinds(self.allow)}, ttl=self.ttl)


# The tables of which there is one


@frozen
class ListenTable:
    address: Address = key(LISTEN, hint='write an address and a port: address = "127.0.0.1:8443"')


@frozen
class ProcessTable:
    uid: int = key(_ID, DEFAULT_UID)
    gid: int | None = key(optional(_ID), None)  # the uid
    key_file: Path | None = key(optional(PATH), None)


@frozen
class StoreTable:
    url: str = key(choice("sqlite:"), "sqlite:", hint='write url = "sqlite:"')


@frozen
class AuditTable:
    segment: int = octets(Sizes().segment, 1 << 40)
    keep: int = key(number(1, 100_000), Sizes().keep)


@frozen
class MetricsTable:
    address: Address | None = key(optional(LOOPBACK), None, hint='write address = "127.0.0.1:9418"')


# The files


_PROVIDERS: Mapping[str, type[ProviderConfig]] = {
    "file": FileProvider,
    "vault": VaultProvider,
    "git-credential": HelperProvider,
    "github-app": AppProvider,
}
_VERSION = "write version = 1 on the first line"


@frozen
class Additions:
    """A file of broker.d: the named tables."""

    version: int = key(number(1, 1), 1, hint=_VERSION)
    upstream: Mapping[str, UpstreamTable] = key(named(table(UpstreamTable)), {})
    provider: Mapping[str, ProviderConfig] = key(named(tagged("type", _PROVIDERS)), {})
    host: Mapping[str, HostTable] = key(named(table(HostTable)), {})


@frozen
class Main(Additions):
    """broker.toml."""

    version: int = key(number(1, 1), hint=_VERSION)
    listen: ListenTable = key(table(ListenTable))
    process: ProcessTable = key(table(ProcessTable), ProcessTable())
    store: StoreTable = key(table(StoreTable), StoreTable())
    timeouts: Timeouts = key(table(Timeouts), Timeouts())
    limits: BrokerLimits = key(table(BrokerLimits), BrokerLimits())
    audit: AuditTable = key(table(AuditTable), AuditTable())
    metrics: MetricsTable = key(table(MetricsTable), MetricsTable())
    egress: Egress = key(table(Egress), Egress())
