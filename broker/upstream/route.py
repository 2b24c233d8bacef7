"""How one place is reached: where it is, whom to trust there, through which proxy, for what."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Protocol

from attrs import define, frozen
from OpenSSL import SSL
from OpenSSL.crypto import Error as CryptoError
from service_identity.exceptions import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    platformTrust,
    trustRootFromCertificates,
)

from broker.config.settings import UpstreamConfig
from broker.config.values import Address
from broker.credentials.providers.credential import Credential, CredentialRequest, Provider
from broker.errors import Misconfigured
from broker.sessions.running import Permit
from gitmoat.identity.tls_options import PARTIAL_WRITE, SUITES
from netpolicy.egress_rules.addresses import Address as Number


@define(eq=False)
class NamedServer:
    """A server known by its name: an authority that we trust has certified it."""

    host: str
    _context: SSL.Context

    def connection(self) -> SSL.Connection:
        made = SSL.Connection(self._context, None)
        made.set_connect_state()
        if not _is_address(self.host):
            made.set_tlsext_host_name(self.host.encode("ascii"))
        return made

    def verify(self, connection: SSL.Connection) -> Exception | None:
        """OpenSSL has verified the chain; this is about the name in it."""
        try:
            if _is_address(self.host):
                verify_ip_address(connection, self.host)
            else:
                verify_hostname(connection, self.host)
        except (VerificationError, CertificateError) as error:
            return error
        return None


def trusting(config: UpstreamConfig, host: str) -> NamedServer:
    """Certificate and name are verified; TLS 1.2 is the least we take."""
    trusted: Any = platformTrust()
    if config.authorities:
        try:
            roots = [Certificate.loadPEM(pem) for pem in config.authorities]
        except (CryptoError, ValueError):
            why = "holds a certificate that cannot be read"
            key = f"upstream.{config.name}.ca_file"
            raise Misconfigured("broker.toml", key, why, "give a PEM file") from None
        trusted = trustRootFromCertificates(roots)
    context = CertificateOptions(trustRoot=trusted).getContext()
    context.clear_mode(PARTIAL_WRITE)
    context.set_tls13_ciphersuites(SUITES)
    return NamedServer(host, context)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Addresses(Protocol):
    """Where a name is not simply looked up, because of who chose it."""

    async def find(self, permit: Permit) -> list[Number]:
        """Those that may be dialled, in the order to try them; Unavailable when there is none."""


@frozen(eq=False)
class Through:
    """An HTTP proxy, what it is called in a reason, and who gives the credential that it wants."""

    address: Address
    called: str = "the proxy"
    provider: Provider | None = None
    upstream: UpstreamConfig | None = None

    async def credential(self, permit: Permit) -> Credential | None:
        if self.provider is None or self.upstream is None:
            return None
        return await self.provider.credential(
            CredentialRequest(permit, self.upstream, "", write=False)
        )


@frozen(eq=False)
class Route:
    """Everything that dialling needs to know; `unreachable` is the code and text of its failure."""

    place: Address
    connect: float  # seconds for each step until the connection can be used
    idle: float
    unreachable: tuple[str, str]
    trust: NamedServer | None = None  # without it nothing is encrypted by us
    proxy: Through | None = None
    tunnelled: bool = True  # through a proxy: by CONNECT, else the proxy itself is the place
    addresses: Addresses | None = None


def server_route(config: UpstreamConfig, place: Address, proxy: Provider | None) -> Route:
    """A configured git server, or what belongs to it: over TLS; `proxy` gives its credential."""
    through = None
    if config.proxy is not None:
        address = config.proxy.address
        through = Through(address, f"the proxy {address}", proxy, config)
    return Route(
        place,
        config.timeouts.connect,
        config.timeouts.idle,
        ("U101", "the git server cannot be reached"),
        trusting(config, place.host),
        through,
    )
