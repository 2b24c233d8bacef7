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

from attrs import define, evolve, field

from audit.journal import Sizes
from broker.errors import Misconfigured
from broker.files import Tree
from broker.providers.credential import is_username
from broker.settings import (
    DEFAULT_UID,
    Address,
    Api,
    AppProvider,
    BrokerConfig,
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
from identity.keyfile import KeyMalformed, parse_public
from netpolicy.ceiling import Ceiling
from netpolicy.matchers import parse_repo_pattern
from netpolicy.owner_helper import owner_helper
from netpolicy.reading import PolicyError, Table, open_table
from netpolicy.units import parse_duration, parse_size

Thing = TypeVar("Thing")

_FILE_LIMIT = 1 << 20
_DAY = 86400
_LARGEST_ID = 0xFFFFFFFE
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_URL = re.compile(r"https://([^/:@?#\s]+)(?::([0-9]{1,5}))?/?")
_PROXY = re.compile(r"http://([^/:@?#\s]+):([0-9]{1,5})/?")
_API = re.compile(r"https://([^/:@?#\s]+)(?::([0-9]{1,5}))?((?:/[A-Za-z0-9._-]+)*)/?")
_CLIENT_ID = re.compile(r"[A-Za-z0-9.]{4,64}")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def _fail(table: Table, key: str, why: str, hint: str) -> NoReturn:
    raise PolicyError(table.at(key) if key else table.path, why, hint)


def _text(table: Table, key: str, hint: str) -> str:
    if not table.has(key):
        _fail(table, key, "is missing", hint)
    return table.text(key)


def _port(table: Table, key: str, text: str, low: int) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= 65535:
        _fail(table, key, "has a port out of range", f"use a port from {low} to 65535")
    return int(text)


def _listen(table: Table) -> Address:
    hint = 'write an address and a port: address = "127.0.0.1:8443"'
    host, _, port = _text(table, "address", hint).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        address = str(ipaddress.ip_address(host))
    except ValueError:
        _fail(table, "address", "is not an IP address with a port", hint)
    table.close()
    return Address(address, _port(table, "address", port, 0))


def _host_name(table: Table, key: str, text: str) -> str:
    """A lower-case name or an IPv4 address, optionally with a port."""
    host, colon, port = text.partition(":")
    if colon:
        _port(table, key, port, 1)
    if len(host) > 253 or _HOST.fullmatch(host) is None:
        _fail(table, key, "is not a host name", "write a lower-case host name, no wildcard")
    return text


def _url(table: Table) -> Address:
    matched = _URL.fullmatch(_text(table, "url", 'write url = "https://HOST[:PORT]"'))
    if matched is None:
        _fail(table, "url", "is not https://HOST[:PORT]", "only https, no user, path or query")
    host = _host_name(table, "url", matched[1])
    return Address(host, _port(table, "url", matched[2] or "443", 1))


def _authorities(table: Table, tree: Tree) -> tuple[bytes, ...]:
    hint = "give the absolute path of a PEM file the broker's uid can read"
    if not table.has("ca_file"):
        return ()
    path = Path(table.text("ca_file"))
    if not path.is_absolute():
        _fail(table, "ca_file", "is not an absolute path", hint)
    try:
        data, _ = tree.read(path, _FILE_LIMIT)
    except OSError as error:
        _fail(table, "ca_file", f"{path} cannot be read ({error.strerror})", hint)
    found = _PEM.findall(data)
    if not found:
        _fail(table, "ca_file", f"{path} holds no PEM certificate", hint)
    return tuple(one + b"\n" for one in found)


def _proxy(table: Table) -> Proxy | None:
    if not table.has("proxy"):
        table.take("proxy")
        if table.has("proxy_provider"):
            _fail(table, "proxy_provider", "stands without a proxy", "add proxy, or remove it")
        table.take("proxy_provider")
        return None
    matched = _PROXY.fullmatch(table.text("proxy"))
    if matched is None:
        hint = "a user and password for it go into a [provider.NAME] and proxy_provider"
        _fail(table, "proxy", "is not http://HOST:PORT", hint)
    host = _host_name(table, "proxy", matched[1])
    address = Address(host, _port(table, "proxy", matched[2], 1))
    wanted = table.text("proxy_provider") if table.has("proxy_provider") else None
    table.take("proxy_provider")
    return Proxy(address, wanted)


def _upstream_timeouts(table: Table, most: Timeouts) -> Timeouts:
    """As the broker's own where nothing is said; those that sidecars count on are never longer."""
    own = evolve(
        most,
        connect=table.quantity("connect", parse_duration, most.connect, _DAY),
        idle=table.quantity("idle", parse_duration, most.idle, _DAY),
        operation=table.quantity("operation", parse_duration, most.operation, _DAY),
    )
    for key in ("idle", "operation"):
        if getattr(own, key) > getattr(most, key):
            hint = f"raise timeouts.{key} of broker.toml first"
            _fail(table, key, "is longer than the broker's own", hint)
    table.close()
    return own


def _upstream(name: str, table: Table, tree: Tree, most: Timeouts) -> UpstreamConfig:
    if not table.has("case_insensitive"):
        fold = "say whether ACME/App and acme/app are one repository there: true for GitHub"
        _fail(table, "case_insensitive", "is missing and has no default", fold)
    upstream = UpstreamConfig(
        name=name,
        address=_url(table),
        also=tuple(_host_name(table, "also", one) for one in table.parsed_all("also", str)),
        authorities=_authorities(table, tree),
        provider=_text(table, "provider", "name a [provider.NAME]"),
        case_insensitive=table.flag("case_insensitive"),
        timeouts=_upstream_timeouts(table.table("timeouts"), most),
        proxy=_proxy(table),
    )
    table.close()
    return upstream


def _file_provider(table: Table) -> FileProvider:
    username = _text(table, "username", 'for GitHub tokens: "x-access-token"')
    if not is_username(username):
        _fail(table, "username", "cannot be sent by Basic authentication", "use ASCII, no colon")
    return FileProvider(username, _absolute(table, "password_file"))


def _absolute(table: Table, key: str) -> Path:
    path = Path(_text(table, key, "write the path from /"))
    if not path.is_absolute():
        _fail(table, key, "is not an absolute path", "write the path from /")
    return path


def _app_provider(table: Table) -> AppProvider:
    given = table.take("app_id")
    hint = "the App ID, or the Client ID, on the App's settings page"
    if (type(given) is not int or given < 1) and not (
        isinstance(given, str) and _CLIENT_ID.fullmatch(given)
    ):
        _fail(table, "app_id", "is not an App's id", hint)
    installation = table.take("installation_id")
    if type(installation) is not int or not 0 < installation < 1 << 53:
        hint = "the number at the end of the installation's settings URL"
        _fail(table, "installation_id", "is not a number", hint)
    return AppProvider(str(given), installation, _absolute(table, "private_key_file"), _api(table))


def _api(table: Table) -> Api | None:
    if not table.has("api_url"):
        table.take("api_url")
        return None
    matched = _API.fullmatch(table.text("api_url"))
    if matched is None:
        hint = "https://HOST[:PORT][/PATH], such as https://git.example.com/api/v3"
        _fail(table, "api_url", "is not an https URL", hint)
    host = _host_name(table, "api_url", matched[1])
    return Api(Address(host, _port(table, "api_url", matched[2] or "443", 1)), matched[3])


def _provider(table: Table) -> ProviderConfig:
    hint = 'write type = "file", "vault", "git-credential" or "github-app"'
    provider: ProviderConfig
    match _text(table, "type", hint):
        case "file":
            provider = _file_provider(table)
        case "vault":
            provider = VaultProvider()
        case "git-credential":
            helper = owner_helper(table)
            provider = HelperProvider(helper.user, helper.command)
        case "github-app":
            provider = _app_provider(table)
        case _:
            _fail(table, "type", "is not a kind of provider this version has", hint)
    table.close()
    return provider


def _host_keys(table: Table) -> tuple[bytes, ...]:
    """One key, or two while the second takes the place of the first."""
    hint = "paste the host's public key: 44 characters of base64, as `hostctl host ls` shows it"
    given = table.take("key")
    texts = given if isinstance(given, list) else [given]
    if not 0 < len(texts) <= 2:
        _fail(table, "key", "is not one key, or two of them", hint)
    try:
        keys = [parse_public(text if isinstance(text, str) else "") for text in texts]
    except KeyMalformed:
        _fail(table, "key", "is not an Ed25519 public key", hint)
    return tuple(dict.fromkeys(keys))


def _host(table: Table) -> HostConfig:
    keys = _host_keys(table)
    ceiling = Ceiling(
        repos=table.parsed_all("repos", parse_repo_pattern),
        push=table.flag("push", True),
        ttl=table.quantity("ttl", parse_duration, 0, 30 * _DAY) or None,
    )
    table.close()
    return HostConfig(keys, ceiling)


def _named(table: Table, key: str) -> Iterator[tuple[str, Table]]:
    """The tables [key.NAME], each with its checked name."""
    given = table.take(key)
    family = open_table({} if given is None else given, key)
    for name in given if isinstance(given, Mapping) else ():
        if _NAME.fullmatch(name) is None:
            _fail(family, name, "is not a name", "use a-z, 0-9 and -, at most 63 characters")
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
            upstream = _upstream(name, one, self.tree, self.timeouts)
            self._add(self.upstreams, file, name, one, upstream)
        for name, one in _named(table, "provider"):
            self._add(self.providers, file, name, one, _provider(one))
        for name, one in _named(table, "host"):
            self._add(self.hosts, file, name, one, _host(one))

    def _add(
        self, into: dict[str, Thing], file: str, name: str, table: Table, value: Thing
    ) -> None:
        if table.path in self._files:
            _fail(table, "", f"is given in {self._files[table.path]} too", "keep one of the two")
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
            _fail(table, "version", "is missing or not 1", "write version = 1 on the first line")
        value = reader(table)
        table.close()
    except PolicyError as error:
        raise Misconfigured(str(path), error.path, error.what, error.hint) from None
    return value


def _store(table: Table) -> str:
    url = table.text("url", "sqlite:")
    if url != "sqlite:":
        _fail(table, "url", "is not a store this version has", 'write url = "sqlite:"')
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
        _fail(table, "proxy_provider", "is not supported here", "use a proxy without a password")
    proxy = _proxy(table)
    table.close()
    return Egress(resolvers, None if proxy is None else proxy.address)


def _resolver(table: Table, text: str) -> Address:
    hint = 'write addresses, with a port if it is not 53: ["192.0.2.53", "192.0.2.54:5353"]'
    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    try:
        address = str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        _fail(table, "resolvers", "is not an IP address", hint)
    return Address(address, _port(table, "resolvers", port, 1))


def _process(table: Table) -> tuple[int, int, Path | None]:
    uid = table.number("uid", DEFAULT_UID, _LARGEST_ID)
    gid = table.number("gid", uid, _LARGEST_ID)
    key = _absolute(table, "key_file") if table.has("key_file") else None
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
    address = _listen(table)
    if not ipaddress.ip_address(address.host).is_loopback:
        _fail(table, "address", "is not on loopback", 'write address = "127.0.0.1:9418"')
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
        listen=_listen(table.table("listen")),
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
