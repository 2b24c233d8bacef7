"""What broker.toml says, as frozen values with their defaults; config.py is the only maker.

Where a table of the file is as the broker uses it, its class says here how each key is read; the
others are in configtables.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, frozen

from broker.config.values import API, PATH, PROXY, RESOLVER, USERNAME, Address, Api, seconds
from gitmoat.audit.journal import Sizes
from gitmoat.shape import Misshapen, Shape, key, number, optional, parsed, several
from gitmoat.wire.git.smarthttp import GitRequest
from netpolicy.format.reading import PolicyError
from netpolicy.owner_helper import helper_command, helper_user
from netpolicy.policy import Ceiling

DEFAULT_UID = 1999999999
# What becomes of a repository's final `.git` before the server is asked.
GIT_SUFFIX = ("keep", "add", "remove")
_RATE = number(1, 10_000_000)
_CLIENT_ID = re.compile(r"[A-Za-z0-9.]{4,64}")


def _app_id(value: object, path: str) -> str:
    """The App ID, which is a number, or the Client ID."""
    if type(value) is int and value >= 1:
        return str(value)
    if isinstance(value, str) and _CLIENT_ID.fullmatch(value):
        return value
    raise Misshapen(path, "is not an App's id")


def _command(value: object, path: str) -> tuple[str, ...]:
    try:
        return helper_command(value)
    except PolicyError as error:
        raise Misshapen(path, error.what, error.hint) from None


@frozen
class FileProvider:
    username: str = key(USERNAME, hint='for GitHub tokens: "x-access-token"')
    password_file: Path = key(PATH, hint="write the path from /")


@frozen
class VaultProvider:
    """Sealed in the broker's own vault, under the provider's name."""


@frozen
class HelperProvider:
    """A git credential helper of the host's owner. hostd reads user and command by itself."""

    user: str = key(parsed(helper_user, str, PolicyError))
    command: tuple[str, ...] = key(
        Shape(_command, list),
        hint='write a list of words: command = ["gh", "auth", "git-credential"]',
    )


@frozen
class AppProvider:
    """A GitHub App's installation. `api_url`: for a server whose API is not where GitHub has it."""

    app_id: str = key(
        Shape(_app_id), hint="the App ID, or the Client ID, on the App's settings page"
    )
    installation_id: int = key(
        number(1, (1 << 53) - 1), hint="the number at the end of the installation's settings URL"
    )
    private_key_file: Path = key(PATH, hint="write the path from /")
    api_url: Api | None = key(optional(API), None)


ProviderConfig = FileProvider | VaultProvider | HelperProvider | AppProvider


@frozen
class Timeouts:
    """Seconds. `head` is for a sidecar's TLS handshake and for the head of a request."""

    connect: int = seconds(5)
    head: int = seconds(10)
    idle: int = seconds(60)
    operation: int = seconds(900)
    drain: int = seconds(30)  # for transfers under way when the broker is told to end


@frozen
class BrokerLimits:
    """Of the broker as a whole; what one session may is in its policy."""

    connections: int = key(number(1, 15000), 4096)
    operations: int = key(number(1, 5000), 256)  # at a time; the others wait in turn
    queue: int = seconds(10, most=60)  # to wait for a turn
    requests_per_minute: int = key(_RATE, 12000)
    host_requests_per_minute: int = key(_RATE, 6000)
    credential_requests_per_minute: int = key(_RATE, 1200)  # to its upstream
    # Bytes a second that a transfer's client must keep up.
    minimum_rate: int = key(number(1, 1 << 20), 512)


@frozen
class Proxy:
    """An HTTP proxy that upstreams are reached through by CONNECT."""

    address: Address
    provider: str | None = None  # the credential it wants


@frozen
class UpstreamConfig:
    name: str
    address: Address
    also: tuple[str, ...]
    authorities: tuple[bytes, ...]  # PEM of ca_file; empty means the system's trust
    provider: str
    case_insensitive: bool
    timeouts: Timeouts = Timeouts()
    proxy: Proxy | None = None
    git_suffix: str = "keep"

    def spelled(self, request: GitRequest) -> GitRequest:
        """As this server knows its repositories: with or without `.git`."""
        if self.git_suffix == "keep":
            return request
        return evolve(request, dot_git=self.git_suffix == "add")

    @property
    def authority(self) -> str:
        """The Host header, and the first of the hosts git URLs are matched against."""
        return self.address.authority


@frozen
class HostConfig:
    """An enrolled host. It has two keys while one is being replaced by the other."""

    keys: tuple[bytes, ...]
    ceiling: Ceiling


@frozen
class Egress:
    """How sandboxes' other hosts are reached; without `resolvers` as the system resolves."""

    resolvers: tuple[Address, ...] = key(
        several(RESOLVER),
        (),
        hint='write addresses, with a port if it is not 53: ["192.0.2.53", "192.0.2.54:5353"]',
    )
    proxy: Address | None = key(optional(PROXY), None, hint="use a proxy without a password")


@frozen
class BrokerConfig:
    listen: Address
    uid: int
    gid: int
    store: str
    timeouts: Timeouts
    limits: BrokerLimits
    key_file: Path | None  # not ours to make or to replace: a systemd credential
    audit: Sizes
    metrics: Address | None
    upstreams: Mapping[str, UpstreamConfig]
    providers: Mapping[str, ProviderConfig]
    hosts: Mapping[str, HostConfig]
    egress: Egress = Egress()
