"""The sockets by which a sidecar is reached, one row each, in the order in which it inherits them.

hostd makes them out of this table, a sidecar serves them, and what they may hold together is
counted here. nftables lets nobody in but the uid of `who`, which a test holds together with this.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from enum import Enum
from typing import Final

from attrs import frozen

from gitmoat.limits.buckets import TokenBucket
from netpolicy.nftables import CONNECT, DNS, GIT_HELPER, GIT_UNTRUSTED, HTTP, SYNTHETIC, TLS

LOOPBACK: Final = "127.0.0.1"
_STREAM, _DATAGRAM, _PACKETS = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET


class Who(Enum):
    """Who may connect."""

    HELPER = "the helper's uid"
    UNTRUSTED = "the untrusted uid"
    ATTESTED = "anybody; the sidecar attests the peer"
    ROOT = "root"


@frozen
class Budget:
    """Connections at a time, and new ones a second."""

    connections: int
    per_second: float
    burst: int

    def rate(self) -> TokenBucket:
        return TokenBucket(self.per_second, self.burst)


@frozen
class Listener:
    """`port` is None for a Unix socket, whose path hostd knows and whose file has `mode`."""

    name: str
    kind: socket.SocketKind
    who: Who
    port: int | None = None
    network: str = LOOPBACK
    mode: int = 0
    budget: Budget | None = None


_EGRESS: Final = Budget(connections=64, per_second=100.0, burst=200)

LISTENERS: Final = (
    Listener(
        "helper_git", _STREAM, Who.HELPER, GIT_HELPER,
        budget=Budget(connections=32, per_second=100.0, burst=200),
    ),
    Listener(
        "untrusted_git", _STREAM, Who.UNTRUSTED, GIT_UNTRUSTED,
        budget=Budget(connections=64, per_second=50.0, burst=200),
    ),
    # Everybody in the sandbox can connect to it; a peer that is not the helper is closed at once.
    Listener(
        "credential", _STREAM, Who.ATTESTED, mode=0o666,
        budget=Budget(connections=32, per_second=200.0, burst=400),
    ),
    # One connection counts, the newest.
    Listener("control", _PACKETS, Who.ROOT, mode=0o600),
    Listener("dns_datagrams", _DATAGRAM, Who.UNTRUSTED, DNS),
    Listener(
        "dns_conversations", _STREAM, Who.UNTRUSTED, DNS,
        budget=Budget(connections=16, per_second=50.0, burst=100),
    ),
    Listener("proxy", _STREAM, Who.UNTRUSTED, CONNECT, budget=_EGRESS),
    Listener("plain", _STREAM, Who.UNTRUSTED, HTTP, SYNTHETIC, budget=_EGRESS),
    Listener("tls", _STREAM, Who.UNTRUSTED, TLS, SYNTHETIC, budget=_EGRESS),
)  # fmt: skip


# Of those that accept as many as come.
BUDGETS: Final = {each.name: each.budget for each in LISTENERS if each.budget is not None}


def named(descriptors: Sequence[int]) -> dict[str, int]:
    """What a sidecar is born with: the descriptors of all rows, in their order."""
    return dict(zip([each.name for each in LISTENERS], descriptors, strict=True))


def listener(name: str) -> Listener:
    return next(each for each in LISTENERS if each.name == name)
