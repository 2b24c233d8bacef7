"""broker.toml and broker.d/*.toml, parsed whole into one frozen value or refused whole."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from attrs import define, field

from audit.journal import Sizes
from broker.configtables import read_host, read_provider, read_upstream
from broker.configvalues import fail, read_absolute, read_listen, read_port, read_proxy
from broker.errors import Misconfigured
from broker.files import Tree
from broker.settings import (
    DEFAULT_UID,
    Address,
    BrokerConfig,
    BrokerLimits,
    Egress,
    FileProvider,
    HostConfig,
    ProviderConfig,
    Timeouts,
    UpstreamConfig,
    VaultProvider,
)
from netpolicy.reading import PolicyError, Table, open_table
from netpolicy.units import parse_duration, parse_size

Thing = TypeVar("Thing")

_FILE_LIMIT = 1 << 20
_DAY = 86400
_LARGEST_ID = 0xFFFFFFFE
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def _named(table: Table, key: str) -> Iterator[tuple[str, Table]]:
    """The tables [key.NAME], each with its checked name."""
    given = table.take(key)
    family = open_table({} if given is None else given, key)
    for name in given if isinstance(given, Mapping) else ():
        if _NAME.fullmatch(name) is None:
            fail(family, name, "is not a name", "use a-z, 0-9 and -, at most 63 characters")
        yield name, family.table(name)


@define(eq=False)
class _Merged:
    """The three families of named tables, over all files, each name given once."""

    tree: Tree
    timeouts: Timeouts = field(factory=Timeouts)
    upstreams: dict[str, UpstreamConfig] = field(factory=dict)
    providers: dict[str, ProviderConfig] = field(factory=dict)
    hosts: dict[str, HostConfig] = field(factory=dict)
    _files: dict[str, str] = field(factory=dict)

    def read(self, file: str, table: Table) -> None:
        for name, one in _named(table, "upstream"):
            upstream = read_upstream(name, one, self.tree, self.timeouts)
            self._add(self.upstreams, file, name, one, upstream)
        for name, one in _named(table, "provider"):
            self._add(self.providers, file, name, one, read_provider(one))
        for name, one in _named(table, "host"):
            self._add(self.hosts, file, name, one, read_host(one))

    def _add(
        self, into: dict[str, Thing], file: str, name: str, table: Table, value: Thing
    ) -> None:
        if table.path in self._files:
            fail(table, "", f"is given in {self._files[table.path]} too", "keep one of the two")
        self._files[table.path] = file
        into[name] = value

    def _refuse(self, path: str, key: str, why: str, hint: str) -> NoReturn:
        raise Misconfigured(self._files[path], f"{path}.{key}", why, hint)

    def check(self) -> None:
        self._check_providers()
        self._check_places()
        self._check_keys()

    def _check_providers(self) -> None:
        hint = "add it with `hostctl cred add NAME`, or correct the name"
        for name, upstream in self.upstreams.items():
            if upstream.provider not in self.providers:
                self._refuse(f"upstream.{name}", "provider", "names no [provider.NAME]", hint)
            wanted = upstream.proxy.provider if upstream.proxy is not None else None
            if wanted is not None and not isinstance(
                self.providers.get(wanted), FileProvider | VaultProvider
            ):
                why = "names no [provider.NAME] of type file or vault"
                self._refuse(f"upstream.{name}", "proxy_provider", why, hint)

    def _check_places(self) -> None:
        owners: dict[str, str] = {}
        for name, upstream in self.upstreams.items():
            for place in (upstream.authority, *upstream.also):
                if owners.setdefault(place, name) != name:
                    why = f"shares {place} with upstream.{owners[place]}"
                    self._refuse(f"upstream.{name}", "url", why, "keep one of them")

    def _check_keys(self) -> None:
        owners: dict[bytes, str] = {}
        for name, host in self.hosts.items():
            for key in host.keys:
                if owners.setdefault(key, name) != name:
                    why = f"is the key of host.{owners[key]} too"
                    self._refuse(f"host.{name}", "key", why, "enrol each host with its own key")


def _check_owner(file: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        hint = "chown root and chmod 0640, then try again"
        raise Misconfigured(file, "", "can be changed by others", hint)


def _load(tree: Tree, path: Path) -> dict[str, Any]:
    hint = "the file must be readable by root and by the broker's group (root:broker, 0640)"
    try:
        data, status = tree.read(path, _FILE_LIMIT)
    except OSError as error:
        raise Misconfigured(str(path), "", f"cannot be read ({error.strerror})", hint) from None
    _check_owner(str(path), status)
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Misconfigured(str(path), "", str(error), "mend the TOML syntax") from None


def _read(
    tree: Tree, path: Path, reader: Callable[[Table], Thing], version: int | None = None
) -> Thing:
    """One file through one reader; an error gets the file's name in front of its key path.

    `version` stands for a missing one: the small files of broker.d need not repeat it.
    """
    data = _load(tree, path)
    try:
        table = open_table(data)
        if (table.take("version") if table.has("version") else version) != 1:
            fail(table, "version", "is missing or not 1", "write version = 1 on the first line")
        value = reader(table)
        table.close()
    except PolicyError as error:
        raise Misconfigured(str(path), error.path, error.what, error.hint) from None
    return value


def _store(table: Table) -> str:
    url = table.text("url", "sqlite:")
    if url != "sqlite:":
        fail(table, "url", "is not a store this version has", 'write url = "sqlite:"')
    table.close()
    return url


def _timeouts(table: Table) -> Timeouts:
    given = Timeouts(
        connect=table.quantity("connect", parse_duration, Timeouts().connect, _DAY),
        head=table.quantity("head", parse_duration, Timeouts().head, _DAY),
        idle=table.quantity("idle", parse_duration, Timeouts().idle, _DAY),
        operation=table.quantity("operation", parse_duration, Timeouts().operation, _DAY),
        drain=table.quantity("drain", parse_duration, Timeouts().drain, _DAY),
    )
    table.close()
    return given


def _egress(table: Table) -> Egress:
    resolvers = tuple(_resolver(table, text) for text in table.parsed_all("resolvers", str))
    if table.has("proxy_provider"):
        fail(table, "proxy_provider", "is not supported here", "use a proxy without a password")
    proxy = read_proxy(table)
    table.close()
    return Egress(resolvers, None if proxy is None else proxy.address)


def _resolver(table: Table, text: str) -> Address:
    hint = 'write addresses, with a port if it is not 53: ["192.0.2.53", "192.0.2.54:5353"]'
    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    try:
        address = str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        fail(table, "resolvers", "is not an IP address", hint)
    return Address(address, read_port(table, "resolvers", port, 1))


def _process(table: Table) -> tuple[int, int, Path | None]:
    uid = table.number("uid", DEFAULT_UID, _LARGEST_ID)
    gid = table.number("gid", uid, _LARGEST_ID)
    key = read_absolute(table, "key_file") if table.has("key_file") else None
    table.take("key_file")
    table.close()
    return uid, gid, key


def _limits(table: Table) -> BrokerLimits:
    default = BrokerLimits()
    given = BrokerLimits(
        connections=table.number("connections", default.connections, 15000),
        operations=table.number("operations", default.operations, 5000),
        queue=table.quantity("queue", parse_duration, default.queue, 60),
        requests_per_minute=_rate(table, "requests_per_minute", default.requests_per_minute),
        host_requests_per_minute=_rate(
            table, "host_requests_per_minute", default.host_requests_per_minute
        ),
        credential_requests_per_minute=_rate(
            table, "credential_requests_per_minute", default.credential_requests_per_minute
        ),
        minimum_rate=table.number("minimum_rate", default.minimum_rate, 1 << 20),
    )
    table.close()
    return given


def _metrics(table: Table) -> Address | None:
    if not table.has("address"):
        table.close()
        return None
    address = read_listen(table)
    if not ipaddress.ip_address(address.host).is_loopback:
        fail(table, "address", "is not on loopback", 'write address = "127.0.0.1:9418"')
    return address


def _audit(table: Table) -> Sizes:
    default = Sizes()
    given = Sizes(
        segment=table.quantity("segment", parse_size, default.segment, 1 << 40),
        keep=table.number("keep", default.keep, 100_000),
    )
    table.close()
    return given


def _rate(table: Table, key: str, default: int) -> int:
    return table.number(key, default, 10_000_000)


def _main(table: Table, merged: _Merged) -> BrokerConfig:
    uid, gid, key = _process(table.table("process"))
    return BrokerConfig(
        listen=read_listen(table.table("listen")),
        uid=uid,
        gid=gid,
        key_file=key,
        store=_store(table.table("store")),
        timeouts=merged.timeouts,
        limits=_limits(table.table("limits")),
        audit=_audit(table.table("audit")),
        metrics=_metrics(table.table("metrics")),
        upstreams=merged.upstreams,
        providers=merged.providers,
        hosts=merged.hosts,
        egress=_egress(table.table("egress")),
    )


def _additions(tree: Tree, directory: Path) -> list[Path]:
    try:
        return [directory / name for name in tree.names(directory) if name.endswith(".toml")]
    except OSError as error:
        why = f"cannot be listed ({error.strerror})"
        raise Misconfigured(str(directory), "", why, "chown root:broker, chmod 0750") from None


def load_config(tree: Tree, main: Path, additions: Path) -> BrokerConfig:
    """Everything or nothing; Misconfigured names the file and the key path."""
    merged = _Merged(tree)

    def read_main(table: Table) -> BrokerConfig:
        merged.timeouts = _timeouts(table.table("timeouts"))
        merged.read(str(main), table)
        return _main(table, merged)

    config = _read(tree, main, read_main)
    for path in _additions(tree, additions):
        _read(tree, path, partial(merged.read, str(path)), version=1)
    merged.check()
    return config
