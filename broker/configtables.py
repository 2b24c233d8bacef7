"""The tables that have a name: [upstream.NAME], [provider.NAME], [host.NAME]."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import evolve

from broker.configvalues import (
    fail,
    read_absolute,
    read_host_name,
    read_port,
    read_proxy,
    read_text,
    read_url,
)
from broker.files import Tree
from broker.providers.credential import is_username
from broker.settings import (
    Address,
    Api,
    AppProvider,
    FileProvider,
    HelperProvider,
    HostConfig,
    ProviderConfig,
    Timeouts,
    UpstreamConfig,
    VaultProvider,
)
from identity.keyfile import KeyMalformed, parse_public
from netpolicy.matchers import parse_repo_pattern
from netpolicy.owner_helper import owner_helper
from netpolicy.policy import Ceiling
from netpolicy.reading import Table
from netpolicy.units import parse_duration

_FILE_LIMIT = 1 << 20
_DAY = 86400
_API = re.compile(r"https://([^/:@?#\s]+)(?::([0-9]{1,5}))?((?:/[A-Za-z0-9._-]+)*)/?")
_CLIENT_ID = re.compile(r"[A-Za-z0-9.]{4,64}")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def _authorities(table: Table, tree: Tree) -> tuple[bytes, ...]:
    hint = "give the absolute path of a PEM file the broker's uid can read"
    if not table.has("ca_file"):
        return ()
    path = Path(table.text("ca_file"))
    if not path.is_absolute():
        fail(table, "ca_file", "is not an absolute path", hint)
    try:
        data, _ = tree.read(path, _FILE_LIMIT)
    except OSError as error:
        fail(table, "ca_file", f"{path} cannot be read ({error.strerror})", hint)
    found = _PEM.findall(data)
    if not found:
        fail(table, "ca_file", f"{path} holds no PEM certificate", hint)
    return tuple(one + b"\n" for one in found)


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
            fail(table, key, "is longer than the broker's own", hint)
    table.close()
    return own


def read_upstream(name: str, table: Table, tree: Tree, most: Timeouts) -> UpstreamConfig:
    if not table.has("case_insensitive"):
        fold = "say whether ACME/App and acme/app are one repository there: true for GitHub"
        fail(table, "case_insensitive", "is missing and has no default", fold)
    upstream = UpstreamConfig(
        name=name,
        address=read_url(table),
        also=tuple(read_host_name(table, "also", one) for one in table.parsed_all("also", str)),
        authorities=_authorities(table, tree),
        provider=read_text(table, "provider", "name a [provider.NAME]"),
        case_insensitive=table.flag("case_insensitive"),
        timeouts=_upstream_timeouts(table.table("timeouts"), most),
        proxy=read_proxy(table),
    )
    table.close()
    return upstream


def _file_provider(table: Table) -> FileProvider:
    username = read_text(table, "username", 'for GitHub tokens: "x-access-token"')
    if not is_username(username):
        fail(table, "username", "cannot be sent by Basic authentication", "use ASCII, no colon")
    return FileProvider(username, read_absolute(table, "password_file"))


def _app_provider(table: Table) -> AppProvider:
    given = table.take("app_id")
    hint = "the App ID, or the Client ID, on the App's settings page"
    if (type(given) is not int or given < 1) and not (
        isinstance(given, str) and _CLIENT_ID.fullmatch(given)
    ):
        fail(table, "app_id", "is not an App's id", hint)
    installation = table.take("installation_id")
    if type(installation) is not int or not 0 < installation < 1 << 53:
        hint = "the number at the end of the installation's settings URL"
        fail(table, "installation_id", "is not a number", hint)
    return AppProvider(
        str(given), installation, read_absolute(table, "private_key_file"), _api(table)
    )


def _api(table: Table) -> Api | None:
    if not table.has("api_url"):
        table.take("api_url")
        return None
    matched = _API.fullmatch(table.text("api_url"))
    if matched is None:
        hint = "https://HOST[:PORT][/PATH], such as https://git.example.com/api/v3"
        fail(table, "api_url", "is not an https URL", hint)
    host = read_host_name(table, "api_url", matched[1])
    return Api(Address(host, read_port(table, "api_url", matched[2] or "443", 1)), matched[3])


def read_provider(table: Table) -> ProviderConfig:
    hint = 'write type = "file", "vault", "git-credential" or "github-app"'
    provider: ProviderConfig
    match read_text(table, "type", hint):
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
            fail(table, "type", "is not a kind of provider this version has", hint)
    table.close()
    return provider


def _host_keys(table: Table) -> tuple[bytes, ...]:
    """One key, or two while the second takes the place of the first."""
    hint = "paste the host's public key: 44 characters of base64, as `hostctl host ls` shows it"
    given = table.take("key")
    texts = given if isinstance(given, list) else [given]
    if not 0 < len(texts) <= 2:
        fail(table, "key", "is not one key, or two of them", hint)
    try:
        keys = [parse_public(text if isinstance(text, str) else "") for text in texts]
    except KeyMalformed:
        fail(table, "key", "is not an Ed25519 public key", hint)
    return tuple(dict.fromkeys(keys))


def read_host(table: Table) -> HostConfig:
    keys = _host_keys(table)
    ceiling = Ceiling(
        repos=table.parsed_all("repos", parse_repo_pattern),
        push=table.flag("push", True),
        ttl=table.quantity("ttl", parse_duration, 0, 30 * _DAY) or None,
    )
    table.close()
    return HostConfig(keys, ceiling)
