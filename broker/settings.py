"""What broker.toml says, as frozen values; config.py is the only maker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from audit.journal import Sizes
from netpolicy.policy import Ceiling

DEFAULT_UID = 1999999999


@frozen
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """As it stands in a URL of https, and in its Host header."""
        return self.host if self.port == 443 else str(self)


@frozen
class FileProvider:
    username: str
    password_file: Path


@frozen
class VaultProvider:
    pass


@frozen
class HelperProvider:
    """A git credential helper of the host's owner. hostd reads user and command by itself."""

    user: str
    command: tuple[str, ...]


@frozen
class AppProvider:
    """A GitHub App's installation. `api` is for a server whose API is not where GitHub has it."""

    app: str
    installation: int
    private_key_file: Path
    api: Api | None = None


@frozen
class Api:
    address: Address
    prefix: str


ProviderConfig = FileProvider | VaultProvider | HelperProvider | AppProvider


@frozen
class Timeouts:
    """Seconds. `head` is for a sidecar's TLS handshake and for the head of a request."""

    connect: int = 5
    head: int = 10
    idle: int = 60
    operation: int = 900
    drain: int = 30  # for transfers under way when the broker is told to end


@frozen
class BrokerLimits:
    """Of the broker as a whole; what one session may is in its policy."""

    connections: int = 4096
    operations: int = 256  # at a time; the others wait in turn
    queue: int = 10  # seconds to wait for a turn
    requests_per_minute: int = 12000
    host_requests_per_minute: int = 6000
    credential_requests_per_minute: int = 1200  # upstream requests with one credential
    minimum_rate: int = 512  # bytes a second that a transfer's client must keep up


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

    @property
    def authority(self) -> str:
        """The Host header, and the first of the hosts git URLs are matched against."""
        return self.address.authority


@frozen
class HostConfig:
    """An enrolled host. It has two keys while one is being replaced by the other."""

    keys: tuple[bytes, ...]
    ceiling: Ceiling = field(factory=Ceiling)


@frozen
class Egress:
    """How sandboxes' other hosts are reached; without `resolvers` as the system resolves."""

    resolvers: tuple[Address, ...] = ()
    proxy: Address | None = None


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
