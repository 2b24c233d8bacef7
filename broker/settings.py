"""What broker.toml says, as frozen values; config.py is the only maker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

DEFAULT_UID = 1999999999


@frozen
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class FileProvider:
    username: str
    password_file: Path


@frozen
class VaultProvider:
    pass


ProviderConfig = FileProvider | VaultProvider


@frozen
class UpstreamConfig:
    name: str
    address: Address
    also: tuple[str, ...]
    authorities: tuple[bytes, ...]  # PEM of ca_file; empty means the system's trust
    provider: str
    case_insensitive: bool

    @property
    def authority(self) -> str:
        """The Host header, and the first of the hosts git URLs are matched against."""
        if self.address.port == 443:
            return self.address.host
        return f"{self.address.host}:{self.address.port}"


@frozen
class Timeouts:
    """Seconds. `head` is for a sidecar's TLS handshake and for the head of a request."""

    connect: int = 5
    head: int = 10
    idle: int = 60
    operation: int = 900


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
class BrokerConfig:
    listen: Address
    uid: int
    gid: int
    store: str
    timeouts: Timeouts
    limits: BrokerLimits
    upstreams: Mapping[str, UpstreamConfig]
    providers: Mapping[str, ProviderConfig]
    hosts: Mapping[str, bytes]
