"""The messages of the control socket, as bytes and values.

The sidecar's are of one fixed size, so that a compromised one can tell hostd nothing else; hostd's
are small JSON objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from identity.keyfile import KeyMalformed, parse_public
from limits.brake import LIFTED

SIZE: Final = 33
DIAL: Final = b"D" + bytes(SIZE - 1)
_LARGEST = 1024


def ready(public_key: bytes) -> bytes:
    if len(public_key) != SIZE - 1:
        raise ValueError("an Ed25519 public key has 32 octets")
    return b"R" + public_key


def serving(digest: bytes) -> bytes:
    """The answer to another policy: the SHA-256 of the one in force now."""
    if len(digest) != SIZE - 1:
        raise ValueError("a SHA-256 has 32 octets")
    return b"P" + digest


def tested(results: Sequence[bool]) -> bytes:
    """The answer to a self-test: one octet each, 1 where the attempt was denied."""
    return b"T" + bytes(results).ljust(SIZE - 1, b"\0")


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

    keys: frozenset[bytes]


@frozen
class ReplacePolicy:
    """Another policy came with this message, in a file of its own."""


@frozen
class SelfTest:
    """Try what a sidecar must not be able to do, and say what came of it."""


@frozen
class Stop:
    """Finish what is running and end."""


@frozen
class Verifying:
    """hostd tries what must be refused, for so many seconds at most; 0: it has done so."""

    seconds: int


Order = Activate | Connection | DialFailed | Pins | ReplacePolicy | SelfTest | Stop | Verifying

_ORDERS: dict[str, Order] = {
    "activate": Activate(),
    "connection": Connection(),
    "dial-failed": DialFailed(),
    "policy": ReplacePolicy(),
    "selftest": SelfTest(),
    "stop": Stop(),
}


class ControlMalformed(Exception):
    """A control message that this version does not know."""


def parse_order(data: bytes, descriptors: int) -> Order:
    """Exactly one descriptor comes with `connection` and `policy`, none with anything else."""
    order = _order(data)
    if descriptors != (1 if isinstance(order, Connection | ReplacePolicy) else 0):
        raise ControlMalformed("wrong number of descriptors")
    return order


def _order(data: bytes) -> Order:
    if len(data) > _LARGEST:
        raise ControlMalformed("message too large")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        raise ControlMalformed("not JSON") from None
    match message:
        case {"op": "pins", "keys": list(keys), **rest} if not rest:
            return Pins(_keys(keys))
        case {"op": "verifying", "seconds": int(seconds), **rest} if not rest:
            return Verifying(_lifted(seconds))
        case {"op": str(operation), **rest} if not rest and operation in _ORDERS:
            return _ORDERS[operation]
        case _:
            raise ControlMalformed("not an operation we know")


def _lifted(seconds: int) -> int:
    if isinstance(seconds, bool) or not 0 <= seconds <= LIFTED:
        raise ControlMalformed("no such time")
    return seconds


def _keys(given: list[object]) -> frozenset[bytes]:
    if not 0 < len(given) <= 2:
        raise ControlMalformed("not one key, or two")
    try:
        return frozenset(parse_public(one if isinstance(one, str) else "") for one in given)
    except KeyMalformed:
        raise ControlMalformed("not a public key") from None
