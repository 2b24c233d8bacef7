"""What hostd tells a sidecar, and the few words that a sidecar tells hostd.

hostd's are a configuration, given at the start, and orders: small JSON objects on a seqpacket
socket, of which two come with a descriptor. The sidecar's are of one fixed size, so that one that
was taken over can tell hostd nothing else.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from attrs import frozen

from gitmoat.identity.keyfile import KeyMalformed, parse_public
from gitmoat.identity.peer import Means
from gitmoat.limits.brake import LIFTED
from gitmoat.shape import (
    Misshapen,
    Shape,
    choice,
    collection,
    key,
    member,
    number,
    optional,
    parsed,
    read,
    read_json,
    table,
    tagged,
    text,
    write,
)
from netpolicy.format.document import PolicyError, policy_from_mapping
from netpolicy.format.writing import policy_to_mapping
from netpolicy.policy import Policy
from netpolicy.upstreams import UpstreamTable

T = TypeVar("T")

SCHEMA: Final = "gitmoat.sidecar/1"
# Connections to the broker that one sidecar may hold for git, and for other hosts.
MOST_DIALS: Final = 64
MOST_EGRESS: Final = 64
_CONFIG_MAX: Final = 16 << 20
_ORDER_MAX: Final = 1024

_UID = number(1, 2**32 - 2)
_KEY = parsed(parse_public, lambda raw: b64encode(raw).decode("ascii"), KeyMalformed)


def _of_policy(value: object, path: str) -> Policy:
    return _by_netpolicy(policy_from_mapping, value, path)


def _of_upstreams(value: object, path: str) -> UpstreamTable:
    return _by_netpolicy(UpstreamTable.from_mapping, value, path)


def _by_netpolicy(parse: Callable[[Mapping[str, Any]], T], value: object, path: str) -> T:
    if not isinstance(value, dict):
        raise Misshapen(path, "must be a table")
    try:
        return parse(value)
    except PolicyError as error:
        raise Misshapen(f"{path}.{error.path}", error.what, error.hint) from None


_POLICY: Shape[Policy] = Shape(_of_policy, policy_to_mapping)
_UPSTREAMS: Shape[UpstreamTable] = Shape(_of_upstreams, UpstreamTable.to_mapping)


@frozen
class Uids:
    sidecar: int = key(_UID)
    helper: int = key(_UID)
    untrusted: int = key(_UID)

    def __attrs_post_init__(self) -> None:
        if len({self.sidecar, self.helper, self.untrusted}) != 3:
            raise ValueError("must be three different uids")


@frozen
class SidecarConfig:
    """No key has a default: hostd and its sidecars are of one version, or do not agree."""

    schema: str = key(choice(SCHEMA))
    sandbox: str = key(text(128))
    session: str = key(text(128))
    uids: Uids = key(table(Uids))
    helper_cgroups: frozenset[int] | None = key(optional(collection(number(1, 2**64 - 1), 1)))
    peer: Means = key(member(Means))
    broker_keys: frozenset[bytes] = key(collection(_KEY, 1))
    policy: Policy = key(_POLICY)
    upstreams: UpstreamTable = key(_UPSTREAMS)
    dial_cap: int = key(number(1, MOST_DIALS))
    egress_cap: int = key(number(1, MOST_EGRESS))


def parse_config(raw: bytes) -> SidecarConfig:
    return read(SidecarConfig, read_json(raw, _CONFIG_MAX))


def format_config(config: SidecarConfig) -> bytes:
    return json.dumps(write(config)).encode()


@frozen
class Allowed:
    """What comes with the order `policy`."""

    policy: Policy = key(_POLICY)
    upstreams: UpstreamTable = key(_UPSTREAMS)


def parse_allowed(raw: bytes) -> Allowed:
    return read(Allowed, read_json(raw, _CONFIG_MAX))


def format_allowed(allowed: Allowed) -> bytes:
    return json.dumps(write(allowed)).encode()


# Orders of hostd


@frozen
class Activate:
    """The sandbox is attested: begin to accept."""


@frozen
class Connection:
    """One connected socket to the broker came with this message."""


@frozen
class DialFailed:
    """hostd could not reach the broker for one DIAL."""


@frozen
class Pins:
    """The broker's keys from now on: two while one takes the place of the other."""

    keys: frozenset[bytes] = key(collection(_KEY, 1, 2))


@frozen
class ReplacePolicy:
    """Another policy, and the git servers, came with this message, in a file of their own."""


@frozen
class SelfTest:
    """Try what a sidecar must not be able to do, and say what came of it."""


@frozen
class Stop:
    """Finish what is running and end."""


@frozen
class Verifying:
    """hostd tries what must be refused, for so many seconds at most; 0: it has done so."""

    seconds: int = key(number(0, LIFTED))


Order = Activate | Connection | DialFailed | Pins | ReplacePolicy | SelfTest | Stop | Verifying

ORDERS: Final[dict[str, type[Order]]] = {
    "activate": Activate,
    "connection": Connection,
    "dial-failed": DialFailed,
    "pins": Pins,
    "policy": ReplacePolicy,
    "selftest": SelfTest,
    "stop": Stop,
    "verifying": Verifying,
}
_ORDER: Shape[Any] = tagged("op", ORDERS)
_WITH_DESCRIPTOR = (Connection, ReplacePolicy)


def parse_order(data: bytes, descriptors: int) -> Order:
    """Exactly one descriptor comes with `connection` and `policy`, none with anything else."""
    order: Order = _ORDER.read(read_json(data, _ORDER_MAX), "")
    if descriptors != (1 if isinstance(order, _WITH_DESCRIPTOR) else 0):
        raise Misshapen("", "came with the wrong number of descriptors")
    return order


def format_order(order: Order) -> bytes:
    return json.dumps(_ORDER.write(order), separators=(",", ":")).encode()


# Words of a sidecar: a letter and 32 octets

SIZE: Final = 33
READY: Final = b"R"
SERVING: Final = b"P"
TESTED: Final = b"T"
DIAL: Final = b"D" + bytes(SIZE - 1)


def ready(public_key: bytes) -> bytes:
    if len(public_key) != SIZE - 1:
        raise ValueError("an Ed25519 public key has 32 octets")
    return READY + public_key


def serving(digest: bytes) -> bytes:
    """The answer to another policy: the SHA-256 of the file that came, or zeros if it was not
    understood and the old one is still in force."""
    if len(digest) != SIZE - 1:
        raise ValueError("a SHA-256 has 32 octets")
    return SERVING + digest


def tested(results: Sequence[bool]) -> bytes:
    """The answer to a self-test: one octet each, 1 where the attempt was denied."""
    return TESTED + bytes(results).ljust(SIZE - 1, b"\0")
